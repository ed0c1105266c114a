"""Rules about cache dtype, quant mode and skip list (KV2xx)."""
