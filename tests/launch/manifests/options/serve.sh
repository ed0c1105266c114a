vllm serve --config llama.yaml --block-size 20
vllm serve meta-llama/Llama-3.1-8B --config=llama.yaml
vllm serve meta-llama/Llama-3.1-8B --config /etc/vllm/elsewhere.yaml
