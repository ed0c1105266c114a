"""Stage 2: cache dtypes, from the strings of options and checkpoints to what is stored."""
