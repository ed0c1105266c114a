"""History entries about what vLLM refuses while it builds the engine config and the layers."""
