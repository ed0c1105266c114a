"""Engines built in Python."""

import subprocess

from vllm import LLM, AsyncEngineArgs, EngineArgs

MODEL = "meta-llama/Llama-3.1-8B"
COMMON = dict(gpu_memory_utilization=0.9, enforce_eager=True)


def main(length: int) -> None:
    llm = LLM(MODEL, kv_cache_dtype="fp8", block_size=12, **COMMON)
    args = EngineArgs(model="Qwen/Qwen3-32B", tensor_parallel_size=3, max_model_len=length)
    other = AsyncEngineArgs(
        model="zai-org/GLM-5.2-FP8",
        kv_cache_dtype="fp8",
        kv_cache_dtype_skip_layers=["0", "1"],
        compilation_config={"cudagraph_mode": "NONE"},
    )
    subprocess.run(["vllm", "serve", MODEL, "--kv-cache-dtype", "int3"], check=True)
    print(llm, args, other)
