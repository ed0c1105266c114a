"""History entries about capacity."""

from kvplan.releases import Behaviour
