"""History entries about compressed and auxiliary caches of single model families."""
