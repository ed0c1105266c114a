"""Stage 8: the pool of blocks and what fits into it."""
