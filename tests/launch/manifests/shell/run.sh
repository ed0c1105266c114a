#!/usr/bin/env bash
# Variables, arrays, defaults, chains, docker run, and a loop over models.
set -euo pipefail

MODEL=${MODEL:-zai-org/GLM-5.2-FP8}
COMMON="--tensor-parallel-size 8
  --max-model-len ${MAX_LEN}"
ARGS=(--kv-cache-dtype fp8)
ARGS+=(--kv-cache-dtype-skip-layers 0,1)

pip install -q "vllm==0.26.0" && \
  VLLM_USE_V2_MODEL_RUNNER=1 exec vllm serve "$MODEL" $COMMON "${ARGS[@]}" $EXTRA

for model in meta-llama/Llama-3.1-8B Qwen/Qwen3-32B; do
  nohup vllm serve "$model" --port "$PORT" > "log-${model//\//-}" 2>&1 &
done

docker run --gpus '"device=0,1"' --rm -it -p 8000:8000 \
  -e VLLM_KV_CACHE_LAYOUT=HND -v ~/.cache:/root/.cache \
  vllm/vllm-openai:v0.25.1 --model openai/gpt-oss-20b \
  --tensor-parallel-size=2

ssh node1 "cd /srv && vllm serve /data/unknown-model --dtype half"
eval "vllm serve meta-llama/Llama-3.1-8B --kv-cache-dtype fp4"
echo "vllm serve is what starts the server"
