"""The checkpoint room: what do the model's files say?"""

from kvplan.checkpoint.load import load
from kvplan.checkpoint.values import Checkpoint, Source

__all__ = ["Checkpoint", "Source", "load"]
