"""Rules about parallelism (KV4xx)."""
