"""vLLM's own answer, without a GPU: `python -m tests.oracle ask | record | drift | setup | sources` (see README.md)."""
