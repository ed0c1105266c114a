"""History entries about context parallelism, local and cross attention."""
