"""History entries about cache."""

from kvplan.releases import Behaviour
