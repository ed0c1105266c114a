"""Slurm batch scripts: the GPUs that their `#SBATCH` comments ask for."""

from __future__ import annotations

import re
from dataclasses import replace

from kvplan.launch.found import Surroundings
from kvplan.launch.sources import gpus

_DIRECTIVE = re.compile(r"(?m)^#SBATCH[ \t]+(--?[A-Za-z-]+)[ \t=]+([^\s#]+)", re.ASCII)
_COUNTING = frozenset({"--gres", "--gpus", "-G", "--gpus-per-node", "--gpus-per-task"})


def directed(text: str, around: Surroundings) -> Surroundings:
    """The surroundings with the GPU and the number a node that the directives name.

    `--gres=gpu:h100:8`, `--gpus-per-node=8`, `--constraint=h100`.
    """
    gpu, count = around.gpu, around.count
    for directive in _DIRECTIVE.finditer(text):
        name, value = directive[1], directive[2]
        parts = value.split(",")[0].removeprefix("gpu:").split(":")
        if name in ("--constraint", "-C"):
            gpu = gpus.read(value) or gpu
        elif name in _COUNTING and not (name == "--gres" and not value.startswith("gpu")):
            gpu = (gpus.read(parts[0]) if not parts[0].isdigit() else None) or gpu
            count = int(parts[-1]) if parts[-1].isdigit() and len(parts[-1]) < 5 else count
    return replace(around, gpu=gpu, count=count)
