"""kvplan from Python: what the commands `plan` and `check` compute, as values.

>>> import kvplan
>>> found = kvplan.check(
...     "vllm serve zai-org/GLM-5.2-FP8 -tp 8 --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 1",
...     vllm_version="0.25.1",
...     gpu="h200:8",
... )
>>> found.plan.ok, [finding.rule for finding in found.errors]
(False, ['KV201'])
>>> print(found.errors[0].fix)
use vLLM 0.26.0 or later; on 0.25.1 only --kv-cache-dtype auto starts

>>> plan = kvplan.plan("vllm serve Qwen/Qwen3-0.6B --max-model-len 2048", gpu="l4", available_kv_memory="4GiB")
>>> plan.capacity.num_blocks, plan.capacity.tokens
(2340, 37440)
>>> {layer.page_bytes for layer in plan.layers}
{65536}
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvplan.errors import InputError

if TYPE_CHECKING:
    from kvplan.engine.values import Plan
    from kvplan.rules.values import Finding


@dataclass(frozen=True, slots=True)
class Checked:
    """A plan and what is wrong with it."""

    plan: Plan
    findings: tuple[Finding, ...]
    """Worst first."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that the command `check` fails on by default."""
        return tuple(finding for finding in self.findings if finding.severity.rank == 0)

    @property
    def ok(self) -> bool:
        """Whether start-up succeeds and nothing is an error."""
        return self.plan.ok and not self.errors


def plan(
    command: str | Sequence[str],
    *,
    vllm_version: str = "latest",
    gpu: str | None = None,
    available_kv_memory: str | int | None = None,
    weights: str | int | None = None,
    environment: Mapping[str, str] | None = None,
    offline: bool = True,
) -> Plan:
    """The emulated start-up of a literal `vllm serve …` command.

    `command` is one string in shell quoting, or its words. `gpu` is a name, `name:count` or `sm_90`; without it an
    H200 is assumed. `available_kv_memory` is what vLLM logs as `Available KV cache memory` a GPU: bytes, or a text such
    as `60GiB`. Without it, where `gpu` is given and the size of the weights is known (from the files of a directory, or
    as `weights`, in the same notation), blocks and tokens are upper bounds (`Capacity.estimate`); otherwise they stay
    None. `offline` forbids to ask the Hub for a config that is neither a
    path nor in the catalog. Raises kvplan.InputError, whose text is one line, for input that cannot be used; a start
    that vLLM refuses is no exception but `Plan.error`.
    """
    from kvplan.cli.launching import served, weighed
    from kvplan.engine import plan as emulate
    from kvplan.launch.build import from_command
    from kvplan.launch.hardware import parse_gpu
    from kvplan.launch.sizes import parse_size
    from kvplan.releases import resolve

    memory = available_kv_memory
    launch = from_command(
        _words(command),
        release=resolve(vllm_version),
        hardware=None if gpu is None else parse_gpu(gpu),
        available_kv_memory=None if memory is None else parse_size(str(memory), "available_kv_memory"),
        environment=environment,
    )
    launch, checkpoint, draft = served(launch, offline=offline)
    return emulate(weighed(checkpoint, None if weights is None else str(weights)), launch, draft=draft)


def check(
    command: str | Sequence[str],
    *,
    vllm_version: str = "latest",
    gpu: str | None = None,
    available_kv_memory: str | int | None = None,
    weights: str | int | None = None,
    environment: Mapping[str, str] | None = None,
    offline: bool = True,
    select: frozenset[str] | None = None,
    ignore: frozenset[str] | None = None,
) -> Checked:
    """The plan of a command with the findings of all rules, or of those in `select` and not in `ignore` (codes).

    The other arguments and what is raised are those of `plan`.
    """
    from kvplan.rules import run

    planned = plan(
        command,
        vllm_version=vllm_version,
        gpu=gpu,
        available_kv_memory=available_kv_memory,
        weights=weights,
        environment=environment,
        offline=offline,
    )
    return Checked(planned, tuple(run(planned, select=select, ignore=ignore)))


def _words(command: str | Sequence[str]) -> list[str]:
    if not isinstance(command, str):
        return list(command)
    try:
        return shlex.split(command)
    except ValueError as error:
        raise InputError(f"the command cannot be split into words ({error}): check its quotes") from None
