"""Rules about launches that hand caches to each other: prefill and decode apart."""
