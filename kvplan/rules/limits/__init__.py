"""Rules about what kvplan itself does not know (KV9xx)."""
