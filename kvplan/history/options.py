"""History entries about options."""

from kvplan.releases import Behaviour
