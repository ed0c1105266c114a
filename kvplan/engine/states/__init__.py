"""State layers: their options and tensors."""
