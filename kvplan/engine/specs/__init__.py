"""Stage 6: KV cache specs."""
