"""kvplan: what vLLM will do with the KV cache, told before the deploy and without a GPU."""

__version__ = "0.1.0"
