"""Stage 7: unified pages and groups."""
