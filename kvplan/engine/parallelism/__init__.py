"""Stage 3: what one rank holds."""
