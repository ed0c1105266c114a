"""History entries about speculative decoding."""
