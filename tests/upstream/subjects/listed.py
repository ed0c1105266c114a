"""Short lists that vLLM keeps in one place: names that a function or a constant goes by."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from kvplan.engine.cache_dtypes import modelopt
from kvplan.engine.models import arch_config
from kvplan.engine.options import runner
from kvplan.engine.speculation import rewriting
from kvplan.releases import Release
from tests.upstream.evaluate import Evaluator, Unread
from tests.upstream.facts import Facts, Subject
from tests.upstream.sources import Moved, Sources

CONVERTOR = "transformers_utils/model_arch_config_convertor.py"
MODEL = "config/model.py"


def span_row(name: str, value: Any, since: str) -> str:
    """A row of a table from names to spans."""
    return f'"{name}": Span(since="{since}"),'


def methods(sources: Sources, path: str, name: str) -> Iterator[ast.FunctionDef]:
    """The methods of that name in a file, in order."""
    module = sources.module(path)
    if module is not None:
        yield from (node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef) and node.name == name)


def compared(function: ast.FunctionDef, attribute: str) -> set[str]:
    """The texts that the function compares `….attribute` with, by `==` or `in`; lists may have a local name."""
    lists = {
        target.id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.Compare(left=ast.Attribute(attr=name), comparators=[against]) if name == attribute:
                against = lists.get(against.id, against) if isinstance(against, ast.Name) else against
                value = ast.literal_eval(against)
                found |= {value} if isinstance(value, str) else set(value)
            case _:
                pass
    return found


def mla_types(sources: Sources) -> Facts:
    """Model type by model type: true, for those that `is_deepseek_mla` names (AXK1 by its class's own method)."""
    found = next(methods(sources, CONVERTOR, "is_deepseek_mla"), None)
    names = set() if found is None else compared(found, "model_type")
    if len(names) < 5:
        raise Moved(f"{CONVERTOR} has no list in is_deepseek_mla: `mla_types` must learn the new place")
    return dict.fromkeys(sorted(names), True)


def mm_prefix_types(sources: Sources) -> Facts:
    """Model type by model type: true, for the list MM_PREFIX_LM_MODELS."""
    for path in (CONVERTOR, MODEL):
        for function in methods(sources, path, "is_mm_prefix_lm"):
            names = compared(function, "model_type")
            if names:
                return dict.fromkeys(sorted(names), True)
    raise Moved(f"neither {CONVERTOR} nor {MODEL} has MM_PREFIX_LM_MODELS: `mm_prefix_types` must learn the new place")


def draft_types(sources: Sources) -> Facts:
    """Model type by model type: true, for those whose draft `hf_config_override` makes of the target's config. The
    draft's own names (`…_mtp`) are left out; of a test for part of a name the part is given."""
    path = "config/speculative.py"
    names: set[str] = set()
    for function in methods(sources, path, "hf_config_override"):
        names |= compared(function, "model_type")
        for node in ast.walk(function):
            match node:
                case ast.Compare(
                    left=ast.Constant(value=str() as part),
                    ops=[ast.In()],
                    comparators=[ast.Attribute(attr="model_type")],
                ):
                    names.add(part)
                case _:
                    pass
    if len(names) < 5:
        raise Moved(f"{path} has no list of types in hf_config_override: `draft_types` must learn the new place")
    return {name: True for name in sorted(names) if not name.endswith("_mtp")}


def told_draft_types(release: Release) -> Facts:
    """kvplan's rows."""
    names = {name for one in rewriting.ROWS if release.within(one) for name in one.types}
    return {name: True for name in sorted(names) if not name.endswith("_mtp")}


def config_hooks(sources: Sources) -> Facts:
    """Architecture by architecture: the class that has its hook (MODELS_CONFIG_MAP)."""
    path = "model_executor/models/config.py"
    table = sources.first(path).names.get("MODELS_CONFIG_MAP")
    if not isinstance(table, ast.Dict):
        raise Moved(f"{path} has no MODELS_CONFIG_MAP: `config_hooks` must learn the new place")
    return {
        ast.literal_eval(key): ast.unparse(value)
        for key, value in zip(table.keys, table.values, strict=True)
        if key is not None
    }


def v2_architectures(sources: Sources) -> Facts:
    """Architecture by architecture: true, for DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES (later releases have none)."""
    found = Evaluator(sources).constant(sources.first("config/vllm.py"), "DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES")
    return {} if isinstance(found, Unread) else dict.fromkeys(sorted(found), True)


def modelopt_algorithms(sources: Sources) -> Facts:
    """Algorithm by algorithm: true, for QUANT_ALGOS."""
    path = "model_executor/layers/quantization/modelopt.py"
    found = Evaluator(sources).constant(sources.first(path), "QUANT_ALGOS")
    if not isinstance(found, list):
        raise Moved(f"{path} has no QUANT_ALGOS: `modelopt_algorithms` must learn the new place")
    return dict.fromkeys(sorted(found), True)


def _spans(table: Any) -> Callable[[Release], Facts]:
    return lambda release: {name: True for name, span in dict(table).items() if release.within(span)}


MLA_TYPES = Subject(
    name="mla_types",
    table="engine/models/arch_config.py MLA_MODEL_TYPES",
    read=mla_types,
    told=_spans(arch_config.MLA_MODEL_TYPES),
    row=span_row,
)
MM_PREFIX_TYPES = Subject(
    name="mm_prefix_types",
    table="engine/models/arch_config.py MM_PREFIX_MODEL_TYPES",
    read=mm_prefix_types,
    told=_spans(arch_config.MM_PREFIX_MODEL_TYPES),
    row=span_row,
)
DRAFT_TYPES = Subject(
    name="draft_types",
    table="engine/speculation/rewriting.py ROWS",
    read=draft_types,
    told=told_draft_types,
    row=lambda name, value, since: f'_types("?_mtp", "?", "{name}", since="{since}"),',
)
CONFIG_HOOKS = Subject(
    name="config_hooks",
    table="none: engine/models/hooks.py, state_hooks.py and history entries tell what a hook does",
    read=config_hooks,
    told=None,
)
V2_ARCHITECTURES = Subject(
    name="v2_architectures",
    table="engine/options/runner.py V2_LISTED",
    read=v2_architectures,
    told=_spans(runner.V2_LISTED),
    row=lambda name, value, since: f'("{name}", Span(since="{since}")),',
)
MODELOPT_ALGORITHMS = Subject(
    name="modelopt_algorithms",
    table="engine/cache_dtypes/modelopt.py ALGORITHMS",
    read=modelopt_algorithms,
    told=_spans({one.name: one for one in modelopt.ALGORITHMS}),
    row=lambda name, value, since: f'Algorithm("{name}", since="{since}"),',
)
