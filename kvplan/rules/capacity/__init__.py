"""Rules about capacity (KV6xx)."""
