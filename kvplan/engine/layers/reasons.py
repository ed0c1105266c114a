"""What happened to which layers while they were built, collected so that one sentence speaks for many."""

from __future__ import annotations

from collections import defaultdict

from kvplan.engine.backends.selection import dtypes_with_backend
from kvplan.engine.backends.values import BackendDecision, BackendQuery
from kvplan.engine.values import BackendChoice, Stage, Step
from kvplan.releases import Behaviour, Release


class LayerReasons:
    """Collects which layers share a fate, so that one step or choice speaks for all of them."""

    def __init__(self) -> None:
        self.matched: dict[int, None] = {}
        self.ignored: dict[int, None] = {}
        self.canonicalised: dict[int, None] = {}
        self.used_tokens: set[str] = set()
        self.causes: dict[tuple[str, str, str, str | None, Behaviour | None], dict[int, None]] = defaultdict(dict)
        self.choices: dict[tuple[str, BackendDecision, BackendQuery, bool], dict[int, None]] = defaultdict(dict)
        self.drafts: dict[str, None] = {}

    def note(
        self,
        index: int | None,
        value: str,
        result: str,
        cause: str,
        option: str | None = None,
        behaviour: Behaviour | None = None,
    ) -> None:
        """Remember why; `index` None stands for the draft, whose numbers are not those of decoder layers."""
        if index is None:
            _ = self.causes[value, result, f"draft: {cause}", option, behaviour]
        else:
            self.causes[value, result, cause, option, behaviour][index] = None

    def steps(self) -> tuple[Step, ...]:
        """What was noted, one step for all layers of which the same is true."""
        return tuple(
            Step(
                Stage.BACKEND if value == "layer.backend" else Stage.LAYERS,
                value,
                result,
                cause,
                tuple(sorted(layers)),
                option,
                behaviour,
            )
            for (value, result, cause, option, behaviour), layers in self.causes.items()
        )

    def backend_choices(self, release: Release) -> tuple[BackendChoice, ...]:
        """Every backend decision with the layers it is for."""
        return tuple(
            BackendChoice(
                backend=decision.backend,
                layers=tuple(sorted(layers)),
                cache_dtype=cache_dtype,
                rejected=decision.rejected,
                precluded_by_block_size=decision.precluded_by_block_size,
                dtypes_with_backend=() if decision.backend is not None else dtypes_with_backend(query, release),
                draft=draft,
            )
            for (cache_dtype, decision, query, draft), layers in self.choices.items()
        )
