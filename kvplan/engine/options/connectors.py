"""KV connectors: what a transfer or an offload of the cache asks of the engine that holds it.

A connector may not work with the hybrid KV cache manager, which is then off, and it may want the cache in an order of
its own. Sources: `distributed/kv_transfer/kv_connector/factory.py`, the connector classes beside it (`SupportsHMA`,
`get_required_kvcache_layout`), `config/kv_transfer.py` and `VllmConfig._post_init_kv_transfer_config`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvplan.engine.failures import ConnectorRefused, InvalidValue
from kvplan.engine.options import given
from kvplan.engine.stop import StartupStops, config_refuses, stop
from kvplan.engine.values import Stage
from kvplan.history import connectors as history
from kvplan.launch.values import Launch
from kvplan.releases import ALWAYS, Release, Span

OPTION = "--kv-transfer-config"
ROLES = ("kv_producer", "kv_both", "kv_consumer")
_SIMPLE_OFFLOAD = "VLLM_USE_SIMPLE_KV_OFFLOAD"
_MULTI = "MultiConnector"

NIXL = ("NixlConnector", "NixlPullConnector", "NixlPushConnector")
"""Connectors that hand the cache to another instance through NIXL."""

_TOKENS_FIRST = "LBNHC"
_HEADS_FIRST = "LBHNC"
_BLOCKS_OUTERMOST = "BLHNC"


@dataclass(frozen=True, slots=True)
class Connector(Span):
    """A connector class in the releases of its span."""

    name: str
    hybrid: Span | None = None
    """The releases in which it works with the hybrid manager; None: none."""
    layout: str | None = None
    """The order of the cache it asks for, by its newest name."""
    layout_in: Span = ALWAYS
    """The releases in which it asks for it."""
    heads_only: bool = False
    """Whether it asks for none where a model has no KV heads (MLA)."""

    def works_with_hybrid(self, release: Release) -> bool:
        """Whether groups of several kinds may be transferred."""
        return self.hybrid is not None and release.within(self.hybrid)


CONNECTORS = (
    Connector("DecodeBenchConnector", hybrid=Span(since="0.21.0")),
    Connector("ExampleConnector"),
    Connector("ExampleHiddenStatesConnector", since="0.17.1", hybrid=Span(since="0.22.1"), layout=_TOKENS_FIRST),
    Connector("FlexKVConnectorV1", since="0.18.1"),
    Connector("HF3FSKVConnector", since="0.20.2"),
    Connector("HiSparseConnector", since="0.30.0", hybrid=Span(since="0.30.0"), layout=_BLOCKS_OUTERMOST),
    Connector("LMCacheConnectorV1"),
    Connector("LMCacheMPConnector"),
    Connector("MoRIIOConnector", hybrid=Span(since="0.30.0")),
    Connector(
        "MooncakeConnector",
        hybrid=Span(since="0.20.2"),
        layout=_HEADS_FIRST,
        layout_in=Span(since="0.19.1"),
        heads_only=True,
    ),
    Connector("MooncakeStoreConnector", since="0.21.0", hybrid=Span(since="0.22.1")),
    Connector(_MULTI, hybrid=Span(since="0.21.0")),
    Connector("NixlConnector", hybrid=Span(since="0.18.1"), layout=_HEADS_FIRST, heads_only=True),
    Connector("NixlPullConnector", since="0.24.0", hybrid=Span(since="0.24.0"), layout=_HEADS_FIRST, heads_only=True),
    Connector("NixlPushConnector", since="0.24.0", hybrid=Span(since="0.24.0"), layout=_HEADS_FIRST, heads_only=True),
    Connector("OffloadingConnector", hybrid=Span(since="0.21.0"), layout=_HEADS_FIRST, layout_in=Span(since="0.22.1")),
    Connector("P2pNcclConnector", until="0.23.0"),
    Connector("SimpleCPUOffloadConnector", since="0.19.1", hybrid=Span(since="0.19.1")),
)


@dataclass(frozen=True, slots=True)
class Transfer:
    """What a launch says about its connector: the name, and where the class comes from."""

    name: str | None
    module: str | None
    children: tuple[Transfer, ...] | None
    """The connectors that a MultiConnector holds; None where it names none."""


def check(launch: Launch) -> None:
    """Raises StartupStops for a transfer config that its own class refuses."""
    config = launch.get("kv_transfer_config")
    if not isinstance(config, Mapping):
        return
    role, name = config.get("kv_role"), config.get("kv_connector")
    if role is not None and role not in ROLES:
        raise _refused(f"Unsupported kv_role: {role}. Supported roles are {ROLES}")
    if name is not None and role is None:
        raise _refused(f"Please specify kv_role when kv_connector is set, supported roles are {ROLES}")
    if launch.release.has(history.CONNECTOR_ASKED_ABOUT_GRAPHS) and not given.value(launch, "enforce_eager"):
        _lookup(_read(config), launch.release)


def check_offloading_size(launch: Launch) -> None:
    """The size becomes a whole number of blocks when the workers make the connector. Raises StartupStops."""
    size = given.value(launch, "kv_offloading_size")
    if not isinstance(size, float) or math.isfinite(size):
        return
    facts = InvalidValue(option="--kv-offloading-size", value=str(size))
    if math.isnan(size):
        raise stop(Stage.KV_CACHE_VIEW, facts, "cannot convert float NaN to integer")
    raise stop(Stage.KV_CACHE_VIEW, facts, "cannot convert float infinity to integer", exception="OverflowError")


def transfer(launch: Launch) -> Transfer | None:
    """The connector of `launch`, from --kv-transfer-config or from --kv-offloading-size."""
    told = transfer_before_offloading(launch)
    if given.value(launch, "kv_offloading_size") is None:
        return told
    module = None if told is None else told.module
    return Transfer(_offloader(launch), module, None)


def transfer_before_offloading(launch: Launch) -> Transfer | None:
    """The connector that --kv-transfer-config alone names: offloading was settled later in older releases."""
    config = launch.get("kv_transfer_config")
    return _read(config) if isinstance(config, Mapping) else None


def excludes_hybrid_manager(launch: Launch) -> bool:
    """Whether the launch's connector switches the hybrid manager off where nobody asked for it.

    Raises StartupStops for a connector that the release does not know, where it looks the class up for this.
    """
    release = launch.release
    if release.has(history.CONNECTOR_DISABLES_HYBRID_MANAGER):
        return transfer_before_offloading(launch) is not None
    asked = transfer(launch)
    return asked is not None and not _works_with_hybrid(asked, release)


def transfers_by_nixl(launch: Launch) -> bool:
    """Whether the launch hands its cache over through one of the NIXL connectors."""
    return any(uses(launch, name) for name in NIXL)


def may_be_made_with_hybrid(asked: Transfer, release: Release) -> bool:
    """Whether the connector's class can be made while the hybrid manager is on; older releases do not ask what a
    MultiConnector holds."""
    known_class = _lookup(asked, release)
    if known_class is not None and known_class.name == _MULTI and not release.has(history.MULTI_ASKED_FOR_CHILDREN):
        return known_class.works_with_hybrid(release)
    return _works_with_hybrid(asked, release)


def preferred_layout(launch: Launch, stage: Stage, *, use_mla: bool) -> str | None:
    """The order of the cache that the connector asks for.

    Raises StartupStops at `stage` where several connectors ask for several, or one is not known.
    """
    asked = transfer(launch)
    try:
        return None if asked is None else _layout(asked, launch.release, use_mla=use_mla)
    except StartupStops as stopped:
        raise StartupStops(replace(stopped.error, stage=stage)) from None


def uses(launch: Launch, name: str) -> bool:
    """Whether the connector is the class `name`, or a MultiConnector holding it."""
    asked = transfer(launch)
    return asked is not None and any(one.name == name for one in (asked, *(asked.children or ())))


def named(launch: Launch, name: str) -> bool:
    """The same of what --kv-transfer-config alone names, which the first checks of the engine config ask."""
    asked = transfer_before_offloading(launch)
    return asked is not None and any(one.name == name for one in (asked, *(asked.children or ())))


def _works_with_hybrid(asked: Transfer, release: Release) -> bool:
    known = _lookup(asked, release)
    if known is None:
        return False
    if known.name != _MULTI:
        return known.works_with_hybrid(release)
    if not asked.children:
        return release.has(history.EMPTY_MULTI_WORKS_WITH_HYBRID)
    return all(_works_with_hybrid(child, release) for child in asked.children)


def _layout(asked: Transfer, release: Release, *, use_mla: bool) -> str | None:
    known = _lookup(asked, release)
    if known is None:
        return None
    if known.name != _MULTI:
        wants = known.layout is not None and release.within(known.layout_in)
        return known.layout if wants and not (known.heads_only and use_mla) else None
    if asked.children is None:
        raise stop(Stage.SPECS, ConnectorRefused(lists_none=True), "", exception="AssertionError")
    wanted = dict.fromkeys(_layout(child, release, use_mla=use_mla) for child in asked.children)
    wanted.pop(None, None)
    if len(wanted) > 1:
        raise stop(
            Stage.SPECS,
            ConnectorRefused(),
            f"KV cache layout mismatch: found {len(wanted)} different layouts "
            f"({', '.join(str(layout) for layout in wanted)}).All connectors must use the same layout.",
        )
    return next(iter(wanted), None)


def _lookup(asked: Transfer, release: Release) -> Connector | None:
    """The class by its name; None for one from a module outside vLLM, which is taken to ask for nothing."""
    if asked.module:
        return None
    if asked.name is None:
        raise _refused("Connector name is not set in KVTransferConfig")
    for connector in CONNECTORS:
        if connector.name == asked.name and release.within(connector):
            return connector
    raise _refused(f"Unsupported connector type: {asked.name}", known(release))


def working_with_hybrid(release: Release) -> tuple[str, ...]:
    """The connectors that leave the hybrid manager on by themselves; none where any connector switches it off."""
    if release.has(history.CONNECTOR_DISABLES_HYBRID_MANAGER):
        return ()
    known_here = (one for one in CONNECTORS if release.within(one) and one.name != _MULTI)
    return tuple(one.name for one in known_here if one.works_with_hybrid(release))


def known(release: Release) -> tuple[str, ...]:
    """The connector names that `release` has registered."""
    return tuple(one.name for one in CONNECTORS if release.within(one))


def _refused(message: str, known: tuple[str, ...] = ()) -> StartupStops:
    return config_refuses(
        Stage.OPTIONS,
        ConnectorRefused(known=known),
        message,
    )


def _read(config: Mapping[str, Any]) -> Transfer:
    extra = config.get("kv_connector_extra_config")
    listed = extra.get("connectors") if isinstance(extra, Mapping) else None
    children = tuple(_children(listed)) if isinstance(listed, list) else None
    return Transfer(
        name=_text(config.get("kv_connector")),
        module=_text(config.get("kv_connector_module_path")),
        children=children,
    )


def _children(listed: list[Any]) -> Iterator[Transfer]:
    return (_read(child) for child in listed if isinstance(child, Mapping))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _offloader(launch: Launch) -> str:
    if given.value(launch, "kv_offloading_backend") == "lmcache":
        return "LMCacheConnectorV1"
    if given.variable(launch, _SIMPLE_OFFLOAD) and launch.release.has(history.SIMPLE_OFFLOADING):
        return "SimpleCPUOffloadConnector"
    return "OffloadingConnector"
