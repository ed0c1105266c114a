"""Rules about options (KV1xx)."""
