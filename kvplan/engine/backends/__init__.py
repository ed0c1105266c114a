"""The backends room."""
