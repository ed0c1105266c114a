"""Stage 5: block sizes."""
