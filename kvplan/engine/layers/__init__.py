"""Stage 4: the layers as the model's code constructs them."""
