"""The launch room."""
