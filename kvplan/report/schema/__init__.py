"""The `kvplan/1` contract as types. Imported for making and checking the JSON Schema, never to make a report.

`python -m kvplan.report.schema` writes `kvplan-1.schema.json` beside this file. Fields are only ever added, so the
published schema lets readers meet fields they do not know; the types here do not, which keeps reports and
contract in step.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

SCHEMA_FILE = Path(__file__).with_name("kvplan-1.schema.json")

Severity = Literal["error", "warning", "note"]
Stage = Literal[
    "options",
    "cache_dtype",
    "parallel",
    "skip_list",
    "backend",
    "layers",
    "block_size",
    "specs",
    "grouping",
    "capacity",
    "kernel_block_size",
    "kv_cache_view",
    "connectors",
    "builders",
    "forward",
    "graphs",
    "scheduler",
]
Role = Literal["attention", "indexer", "state", "compressor", "window", "cross_attention", "draft"]
Count = Field(ge=0)


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class Engine(Part):
    """The engine that is emulated."""

    name: Literal["vllm"]
    release: str
    """The release asked for."""
    acts_as: str
    """The known release that it is taken to behave like."""
    beyond_known: bool
    """The release is newer than every known one."""


class Model(Part):
    """The model's files, and what the engine makes of them."""

    reference: str
    """As it was given."""
    name: str
    architecture: str | None
    """The first architecture that the config names."""
    model_type: str
    source: Literal["catalog", "directory", "file", "stdin", "hub-cache", "hub"]
    config_sha256: str
    path: str | None
    provenance: str | None
    """For catalog models, the public source of the config."""
    incomplete: str | None
    """`trimmed` or `reconstructed`: a config of the catalog that is not the file as published."""
    normalised_by: str
    """`transformers`, or `conventions` for a model type that transformers does not know."""
    weight_bytes: int | None
    engine_class: str | None
    """The class that the engine resolves the architecture to."""
    family: str | None
    """kvplan's family file that built the layers; `general` for the rule that covers the rest."""
    decoder_layers: int | None


class Hardware(Part):
    """One kind of GPU."""

    gpu: str
    compute_capability: str = Field(pattern=r"^\d+\.\d+$")
    assumed: bool
    """Nobody named a GPU."""
    device_name: str
    memory_bytes: int = Count
    count: int | None


class Parallel(Part):
    """The split of the model over GPUs."""

    tensor: int
    pipeline: int
    data: int
    decode_context: int
    prefill_context: int


class Option(Part):
    """An option that somebody set."""

    value: JsonValue
    origin: Literal["default", "flag", "config-file", "environment"]
    spelled: str | None


class LaunchOptions(Part):
    """What was asked for."""

    literal: bool
    """The options came as a literal command line of the engine."""
    options: dict[str, Option]
    environment: dict[str, str]
    not_relevant: list[str]
    """Options that the engine takes and that do not matter to the cache."""


class Speculation(Part):
    """Speculative decoding as the engine runs it."""

    method: str
    num_speculative_tokens: int
    draft_model: str | None
    """As it was named; null where the target holds its draft or the method needs none."""
    draft_architecture: str | None
    """The class of the draft's layers; null where it has none."""
    draft_cache_dtype: str | None
    """The draft's own cache dtype; null where it takes the target's."""


class States(Part):
    """How the states of a model with state layers are kept."""

    mode: str
    """`none`: one a request; `align`: the last ones; `all`: one for every block."""
    block_size: int | None
    """Tokens between two states of one request."""


class EngineSettings(Part):
    """The engine's settings after its own defaults and derivations. Lengths in tokens."""

    cache_dtype: str
    """The launch-wide cache dtype before the model is loaded."""
    user_block_size: int | None
    max_model_len: int
    max_num_batched_tokens: int
    max_num_seqs: int
    gpu_memory_utilization: float
    kv_cache_memory_bytes: int | None
    num_gpu_blocks_override: int | None
    prefix_caching: bool
    async_scheduling: bool
    model_runner: str
    max_concurrent_batches: int
    hybrid_manager_disabled: bool
    sliding_window: int | None
    attention_backend: str | None
    quantization: str | None
    kv_cache_layout: str | None
    states: States | None
    """Null for models without state layers."""
    speculation: Speculation | None


class Skip(Part):
    """The skip list and what became of it."""

    tokens: list[str]
    matched_layers: list[int]
    unmatched_tokens: list[str]
    ignored_layers: list[int]
    """Layers that a token names but whose class never looks at the list."""
    canonicalised_layers: list[int]
    """Layers that were skipped and got the packed dtype all the same."""
    matched_drafts: list[str]
    """Names of the draft's layers that some token reached."""


class Cache(Part):
    """The launch-wide cache settings; null where start-up stopped before they were settled."""

    requested_dtype: str
    resolved_dtype: str | None
    model_dtype: str | None
    block_size: int | None
    skip: Skip


class BlockSizeStep(Part):
    """One change of the block size (tokens)."""

    block_size: int
    cause: str
    text: str
    behaviour: str | None
    reference: str | None


class Rejected(Part):
    """A backend that was not taken, and why."""

    backend: str
    reasons: list[str]


class BackendChoice(Part):
    """One backend decision and the decoder layers it is for."""

    backend: str | None
    layers: list[int]
    cache_dtype: str
    rejected: list[Rejected]
    precluded_by_block_size: list[str]
    dtypes_with_backend: list[str]
    draft: bool
    """It is for layers of the draft, and `layers` are the draft's own numbers."""


class State(Part):
    """The tensors of one state of a layer, on one rank."""

    shapes: list[list[int]]
    dtypes: list[str]
    per_request: int | None
    """States one request keeps; null where it keeps one for every block."""


class Layer(Part):
    """One cached layer. Block sizes in tokens, head sizes in elements."""

    name: str
    """The engine's own module prefix."""
    index: int
    role: Role
    rank: int
    """The pipeline stage."""
    spec: str
    backend: str | None
    cache_dtype: str | None
    storage_dtype: str | None
    """Null for states."""
    quant_mode: str | None
    block_size: int
    num_kv_heads: int | None
    """Of one tensor-parallel rank."""
    head_size: int | None
    head_size_v: int | None
    sliding_window: int | None
    page_bytes: int
    """The final page, padding included, after pages were unified."""
    unpadded_page_bytes: int
    bytes_per_token: float
    """0 for states, which do not grow with a request."""
    skipped: bool
    state: State | None
    layer_class: str
    spec_block_size: int
    """Before pages were unified, as is `spec_page_bytes`."""
    spec_page_bytes: int
    covered: bool
    """The engine's own answers cover this architecture in this release."""


class SharedLayer(Part):
    """A layer that uses another layer's cache."""

    name: str
    index: int
    shares_cache_of: str


class Group(Part):
    """Layers that share a block table."""

    layers: list[str]
    spec: str
    block_size: int
    page_bytes: int
    kernel_block_size: int | None


class LengthFit(Part):
    """What a request of one length takes, and how many fit at once; null where the memory is unknown."""

    tokens: int
    request_bytes: int
    concurrency: float | None


class KindShare(Part):
    """What the layers of one kind take of a request of max_model_len tokens on one GPU."""

    spec: str
    indexer: bool
    sliding_window: int | None
    layers: int
    request_bytes: int
    fixed_bytes: int
    """Of a long request, what does not grow with it."""
    bytes_per_token: float


class Textbook(Part):
    """The usual estimate, for comparison: what one token takes on one GPU by the formula that knows no windows."""

    bytes_per_token: float
    formula: str


class MemoryEstimate(Part):
    """What can be left for the cache on one GPU: `budget_bytes` that the engine may use, less the weights' share."""

    gpu_bytes: int
    budget_bytes: int
    weight_bytes: int | None
    """Null where the size of the weights is not known: then only what exceeds the whole budget is said not to fit."""


class Capacity(Part):
    """What fits on one GPU; null where it could not be computed."""

    available_bytes: int | None
    estimated: bool
    """Whether `available_bytes` is an estimate, on the high side, and with it all that follows from it."""
    estimate: MemoryEstimate | None
    """What the GPU can give; null where the operator gave the memory for the cache, or named no GPU."""
    bytes_per_block: int | None
    num_blocks: int | None
    tokens: int | None
    max_concurrency: float | None
    max_model_len: int
    longest_request_tokens: int | None
    needed_bytes: int | None
    fixed_bytes: int | None
    bytes_per_token: float | None
    log_lines: list[str]
    """The engine's own log lines, as this release prints them."""
    lengths: list[LengthFit]
    """Requests of 8k, 32k and 128k tokens as far as the model takes them, and of max_model_len."""
    kinds: list[KindShare]
    unused_bytes: int
    """Bytes of such a request's blocks that no layer uses."""
    textbook: Textbook | None
    """Null where the formula says nothing: packed cache dtypes."""


class Error(Part):
    """An error at which start-up stops.

    `type` is the class of vLLM's exception, `ArgError` where its argument parser refuses (it prints its usage and exits
    with status 2), `NotEmulated` where kvplan stops itself. `code` is kvplan's stable name for the check that fails.
    """

    stage: Stage
    type: str
    message: str
    code: str


class Startup(Part):
    """How start-up ends. `outcome`, `stage` and `error` tell of the way to a planned cache; `starts` of all of it."""

    outcome: Literal["ok", "error"]
    stage: Stage | None
    error: Error | None
    later_errors: list[Error]
    """Errors that would follow if the first were mended."""
    after_planning: list[Error]
    """Where the cache is planned: the errors that come after, the first of which stops start-up."""
    starts: bool
    """Whether vLLM starts: neither an error while it plans nor one after."""


class Location(Part):
    """A place in a file, counted from 1."""

    file: str
    line: int
    column: int


class Fix(Part):
    """A change to the launch with which the finding is gone, and no new error is there."""

    words: str
    """What to do, as an operator would type it."""
    effect: str
    """What it costs or keeps; empty where nothing that kvplan computes changes."""


class Finding(Part):
    """One thing that is wrong, and how to mend it."""

    rule: str = Field(pattern=r"^KV\d{3}$")
    severity: Severity
    message: str
    layers: list[int]
    options: list[str]
    location: Location | None
    fix: str | None
    """What mends it: the first of `fixes`, or advice about something that is no option."""
    fixes: list[Fix]
    """Changes to the launch that were planned and mend it, the one that changes least first."""
    references: list[str]


class SuppressedFinding(Finding):
    """A finding that was let be."""

    reason: str
    by: Literal["comment", "settings", "baseline"]
    where: str
    """The place of the comment, the entry of the settings file, or the baseline."""


class TraceStep(Part):
    """One link in the chain of reasons behind a value."""

    stage: Stage
    value: str
    result: str
    cause: str
    layers: list[int]
    option: str | None
    behaviour: str | None
    reference: str | None


class Attempt(Part):
    """A change to the launch that was planned to mend a finding."""

    rule: str
    words: str
    outcome: str
    """The rules that speak against it, or that it works and what it costs."""


class PlanReport(Part):
    """What vLLM will do with the KV cache for one launch."""

    schema_: Literal["kvplan/1"] = Field(alias="schema")
    engine: Engine
    model: Model
    hardware: Hardware
    parallel: Parallel
    launch: LaunchOptions
    settings: EngineSettings | None
    cache: Cache
    block_size_steps: list[BlockSizeStep]
    backends: list[BackendChoice]
    layers: list[Layer]
    shared_layers: list[SharedLayer]
    groups: list[Group]
    capacity: Capacity | None
    startup: Startup
    findings: list[Finding]
    suppressed: list[SuppressedFinding]
    """Findings that were let be with a reason; they are in no verdict."""
    suppressed_count: int = Count
    verdict: Literal["ok", "note", "warning", "error"]
    exact: bool
    """The engine's own answers cover this architecture in this release; otherwise the numbers are derived."""
    trace: list[TraceStep] | None = None
    """Only in what `kvplan why` prints."""
    attempts: list[Attempt] | None = None
    """Changes that were planned to mend findings, whatever came of them; only in what `kvplan why` prints."""


def build() -> dict[str, Any]:
    """The JSON Schema of the contract."""
    schema = opened(PlanReport.model_json_schema(by_alias=True))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "kvplan-1.schema.json", **schema}


def text() -> str:
    """The JSON Schema as the file holds it."""
    return json.dumps(build(), indent=2) + "\n"


def opened(node: Any) -> Any:
    """The schema without the bans on further properties and without titles made of field names."""
    if isinstance(node, dict):
        return {
            key: opened(value)
            for key, value in node.items()
            if not (key == "additionalProperties" and value is False)
            and not (key == "title" and isinstance(value, str))
        }
    return [opened(item) for item in node] if isinstance(node, list) else node
