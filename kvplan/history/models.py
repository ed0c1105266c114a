"""History entries about models."""

from kvplan.releases import Behaviour
