"""History entries about blocks."""

from kvplan.releases import Behaviour
