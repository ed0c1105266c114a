"""History entries about backends."""

from kvplan.releases import Behaviour
