"""Speculative decoding: which draft a launch runs, which layers it owns, and what it changes for the target."""
