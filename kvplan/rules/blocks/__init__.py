"""Rules about blocks, pages and groups (KV5xx)."""
