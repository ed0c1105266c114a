"""History entries about packed cache layouts and quantised checkpoints."""
