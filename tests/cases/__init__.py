"""Reports of real launches, as far as they are about configuration."""
