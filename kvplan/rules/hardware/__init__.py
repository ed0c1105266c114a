"""Rules about backends and hardware (KV3xx)."""
