"""History entries about state layers: Mamba, linear attention, short convolution."""
