"""The checkpoint room."""
