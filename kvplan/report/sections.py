"""The parts of a report for people: settings, block size, backends, groups, capacity."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.engine.values import Capacity, Group, Plan
from kvplan.report.fit import fit
from kvplan.report.page import GAP, Page
from kvplan.report.runs import fold
from kvplan.report.words import layer_list, layers_named, size
from kvplan.words import counted, listed, number

_STATE_MODES = {
    "none": "one a request (mode none)",
    "align": "the last ones of a request (mode align)",
    "all": "one for every block (mode all)",
}
"""What `mamba_cache_mode` means."""


def settings(page: Page, plan: Plan) -> None:
    """The engine's settings after its own defaults, and what became of the skip list."""
    settings, skip = plan.settings, plan.skip
    if settings is None:
        return
    rows = [
        ("model dtype", settings.model_dtype),
        ("max model len", f"{number(settings.max_model_len)} tokens"),
        ("batched tokens", number(settings.max_num_batched_tokens)),
        ("requests", f"{number(settings.max_num_seqs)} at once"),
        ("prefix caching", "on" if settings.prefix_caching else "off"),
        ("model runner", settings.model_runner),
        ("hybrid manager", "off" if settings.hybrid_manager_disabled else "on"),
    ]
    if settings.state_mode is not None:
        rows.append(("states", _STATE_MODES.get(settings.state_mode, settings.state_mode)))
    if settings.speculative_method:
        draft = f", draft {settings.draft_model}" if settings.draft_model else ""
        own = f", cache {settings.draft_cache_dtype}" if settings.draft_cache_dtype else ""
        rows.append(
            ("speculation", f"{settings.speculative_method}, {settings.num_speculative_tokens} tokens{draft}{own}")
        )
    if settings.quantization:
        rows.append(("quantisation", settings.quantization))
    if settings.attention_backend:
        rows.append(("backend asked for", settings.attention_backend))
    if settings.kv_cache_layout:
        rows.append(("cache layout", settings.kv_cache_layout))
    if skip.tokens:
        rows.append(("skip list", " ".join(skip.tokens)))
        for name, layers in (
            ("  reaches layers", skip.matched_layers),
            ("  ignored by layers", skip.ignored_layers),
            ("  quantised anyway", skip.canonicalised_layers),
        ):
            if layers:
                rows.append((name, layer_list(layers)))
        if skip.matched_drafts:
            rows.append(("  reaches the draft", listed(skip.matched_drafts)))
        if skip.unmatched_tokens:
            rows.append(("  matching nothing", " ".join(skip.unmatched_tokens)))
    page.heading("Settings")
    page.pairs(rows)


def block_size(page: Page, plan: Plan) -> None:
    """Each change of the block size on the way to the final one."""
    if plan.block_size_steps:
        page.heading("Block size", "tokens, step by step")
        page.pairs((str(step.block_size), step.text) for step in plan.block_size_steps)


def backends(page: Page, plan: Plan) -> None:
    """Each backend decision: what was taken, what was not and why."""
    if not plan.backends:
        return
    page.heading("Attention backends")
    for choice in plan.backends:
        chosen = choice.backend or "none"
        whose = "draft" if choice.draft else layers_named(choice.layers)
        page.line(f"{whose} with {choice.cache_dtype}:", (chosen, "bold"), indent=GAP)
        page.pairs(
            ((f"not {name}", "; ".join(reasons)) for name, reasons in choice.rejected),
            indent=2 * GAP,
        )
        if choice.precluded_by_block_size:
            page.line(f"ruled out by the block size: {listed(choice.precluded_by_block_size)}", indent=2 * GAP)
        if choice.dtypes_with_backend:
            page.line(f"dtypes that have a backend here: {listed(choice.dtypes_with_backend)}", indent=2 * GAP)


def groups(page: Page, plan: Plan, *, whole: bool) -> None:
    """The groups with the layers in each; `whole` adds specs and kernel block sizes."""
    if not plan.groups:
        return
    page.heading("Groups", f"{counted(len(plan.groups), 'block table')}")
    by_name = {layer.name: layer for layer in plan.layers}
    rows = []
    for position, group in enumerate(plan.groups):
        members = [by_name[name] for name in group.layers if name in by_name]
        rows.append((str(position), _group(group, [run.label for run in fold(members)], whole=whole)))
    page.pairs(rows)


def _group(group: Group, labels: Sequence[str], *, whole: bool) -> str:
    said = counted(len(group.layers), "layer")
    if labels:
        said += f": {'; '.join(labels)}"
    said += f"; block {group.block_size}, page {number(group.page_bytes)} B"
    if whole:
        said += f"; {group.spec}"
        if group.kernel_block_size is not None and group.kernel_block_size != group.block_size:
            said += f", kernels see blocks of {group.kernel_block_size}"
    return said


def capacity(page: Page, plan: Plan, *, whole: bool) -> None:
    """What fits on one GPU, and vLLM's own log lines about it; `whole` adds what one request takes, and of what."""
    capacity = plan.capacity
    if capacity is None and plan.error is not None:
        return
    if capacity is None or capacity.available_bytes is None:
        page.heading("Capacity")
        page.line("not computed: pass --available-kv-memory (such as 60GiB) to know what fits", indent=GAP)
        if capacity is not None:
            page.pairs(_need(capacity))
            if whole:
                fit(page, plan, capacity)
        return
    page.heading("Capacity", "per GPU" if capacity.estimate is None else "per GPU, at most")
    rows = _memory(capacity)
    if capacity.bytes_per_block is not None:
        rows.append(("one block", f"{number(capacity.bytes_per_block)} B"))
    if capacity.num_blocks is not None:
        rows.append(("blocks", number(capacity.num_blocks)))
    if capacity.tokens is not None:
        rows.append(("tokens", number(capacity.tokens)))
    if capacity.max_concurrency is not None:
        length = number(capacity.max_model_len)
        rows.append(("concurrency", f"{capacity.max_concurrency:.2f}x at {length} tokens a request"))
    if capacity.longest_request_tokens is not None:
        rows.append(("longest request", f"{number(capacity.longest_request_tokens)} tokens"))
    rows += _need(capacity)
    rows += [("vLLM logs" if position == 0 else "", line) for position, line in enumerate(capacity.log_lines)]
    page.pairs(rows)
    if whole:
        fit(page, plan, capacity)


def _memory(capacity: Capacity) -> list[tuple[str, str]]:
    """The memory for the cache and, where it is an estimate, what it comes from."""
    assert capacity.available_bytes is not None
    had = size(capacity.available_bytes)
    if capacity.estimate is None:
        return [("memory for the cache", had)]
    estimate = capacity.estimate
    budget, weights = (size(count) for count in (estimate.budget_bytes, estimate.weight_bytes or 0))
    return [("memory for the cache", f"{had}, an estimate"), ("", f"{budget} of the GPU less {weights} of weights")]


def _need(capacity: Capacity) -> list[tuple[str, str]]:
    if capacity.needed_bytes is None:
        return []
    return [(f"{number(capacity.max_model_len)} tokens need", size(capacity.needed_bytes))]
