"""The options of `vllm serve`, release by release, and which of them matter to the KV cache.

The rows in `data/options.json` were read off the releases' own parsers: for each of the known releases, the
actions that `make_arg_parser` registers (option strings, destination, number of arguments, type, choices,
default), with equal rows of neighbouring releases merged into one with `since` and `until`. Rows stand in the
order in which the newest release that has them registers them. Fields of a row:

- `dest`, `flags` (as error messages list them), `hidden` (accepted but not listed), `kind`, `nargs`, `choices`,
  `default` (absent: None, or a config object with its own defaults), `const`, `since`, `until`;
- `optional`: an empty value or `None` means None; `append`: repetitions add up; `deprecated`.

`data/config_fields.json` has the fields of the config objects that options such as `--attention-config` take, each
with the first and last release that knows it, read off the same releases' config classes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from kvplan.launch.lookedat import is_harmless
from kvplan.releases import KNOWN, Release, Span


class Kind(StrEnum):
    """How the text of a value is read."""

    BOOL = "bool"
    """No value; `--no-x` is the opposite."""
    TRUE = "true"
    """No value and no opposite."""
    HELP = "help"
    INT = "int"
    FLOAT = "float"
    STR = "str"
    ANY = "any"
    """Text, taken as it is."""
    LOWER = "lower"
    """Text, lower-cased, with dashes made underscores."""
    HUMAN_INT = "human_int"
    """`128k` is 128000, `128K` is 131072."""
    HUMAN_INT_OR_AUTO = "human_int_or_auto"
    """The same; `auto` and -1 are -1."""
    JSON = "json"
    PARSED_JSON = "parsed_json"
    """JSON whose failure is told in other words."""
    DATACLASS = "dataclass"
    """A JSON object for one of vLLM's config classes."""
    JSON_OR_STR = "json_or_str"
    """JSON where it looks like an object, else text."""
    DEVICE_IDS = "device_ids"
    REASONING_PARSER = "reasoning_parser"
    LORA = "lora"


@dataclass(frozen=True, slots=True)
class Option(Span):
    """One option as the releases of its span register it."""

    name: str
    flags: tuple[str, ...]
    kind: Kind
    hidden: tuple[str, ...] = ()
    nargs: str | None = None
    """None (as many as the kind needs: none for BOOL and TRUE, else one), `+` or `?`."""
    optional: bool = False
    append: bool = False
    choices: tuple[Any, ...] | None = None
    default: Any = None
    const: Any = None
    deprecated: bool = False

    @property
    def positional(self) -> bool:
        """Whether it is the positional argument (the model)."""
        return not self.flags

    @property
    def takes_value(self) -> bool:
        """Whether a value may follow the flag."""
        return self.kind not in (Kind.BOOL, Kind.TRUE, Kind.HELP)

    @property
    def is_list(self) -> bool:
        """Whether it takes every value up to the next flag."""
        return self.nargs in ("+", "*")

    @property
    def label(self) -> str:
        """What parser errors call it: all its flags, `--tensor-parallel-size/-tp`."""
        return "/".join(self.flags) or self.name

    @property
    def flag(self) -> str:
        """Its long flag, `--tensor-parallel-size`."""
        return next((flag for flag in self.flags if flag.startswith("--")), self.label)

    @property
    def matters(self) -> bool:
        """Whether it can change the cache, or whether the engine comes to have one."""
        return self.name in MATTERING

    @property
    def kept(self) -> bool:
        """Whether its value is part of a launch: all are but those that leave the cache and the start as they are."""
        return self.matters or not is_harmless(self.name)

    def negates(self, flag: str) -> bool:
        """Whether `flag` is the one of its spellings that sets False."""
        if flag.startswith("--no-"):
            return True
        inverse = _inverse(flag)
        return inverse in self.flags and flag in self.flags and self.flags.index(inverse) < self.flags.index(flag)


SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "cache": (
        "kv_cache_dtype",
        "kv_cache_dtype_skip_layers",
        "calculate_kv_scales",
        "block_size",
        "enable_prefix_caching",
        "prefix_caching_hash_algo",
        "prefix_match_unit",
        "prefix_cache_retention_interval",
        "swa_bounded_replay",
        "kv_sharing_fast_prefill",
        "mamba_cache_dtype",
        "mamba_ssm_cache_dtype",
        "mamba_block_size",
        "mamba_cache_mode",
        "enable_mamba_shared_prefix_checkpoint",
        "use_replayssm",
        "replayssm_buffer_len",
        "disable_hybrid_kv_cache_manager",
        "kv_transfer_config",
        "kv_events_config",
        "kv_offloading_size",
        "kv_offloading_backend",
        "kv_cache_metrics",
        "disable_sliding_window",
        "disable_cascade_attn",
        "diffusion_config",
        "engram_config",
    ),
    "memory": (
        "gpu_memory_utilization",
        "kv_cache_memory_bytes",
        "num_gpu_blocks_override",
        "swap_space",
        "cpu_offload_gb",
        "cpu_offload_params",
        "offload_backend",
        "offload_group_size",
        "offload_num_in_group",
        "offload_prefetch_step",
        "offload_params",
        "enable_sleep_mode",
        "mm_ipc_gpu_memory_gb",
    ),
    "scheduler": (
        "max_num_batched_tokens",
        "max_num_seqs",
        "max_num_scheduled_tokens",
        "max_num_active_seqs",
        "max_num_partial_prefills",
        "max_long_partial_prefills",
        "long_prefill_token_threshold",
        "enable_chunked_prefill",
        "disable_chunked_mm_input",
        "scheduler_reserve_full_isl",
        "watermark",
        "scheduling_policy",
        "scheduler_cls",
        "async_scheduling",
        "performance_mode",
        "stream_interval",
        "prefill_schedule_interval",
        "max_num_queued_reqs",
        "max_num_queued_tokens",
    ),
    "parallel": (
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "data_parallel_size",
        "data_parallel_size_local",
        "data_parallel_rank",
        "data_parallel_start_rank",
        "data_parallel_hybrid_lb",
        "data_parallel_external_lb",
        "data_parallel_multi_port_external_lb",
        "data_parallel_backend",
        "data_parallel_rpc_port",
        "decode_context_parallel_size",
        "prefill_context_parallel_size",
        "dcp_kv_cache_interleave_size",
        "cp_kv_cache_interleave_size",
        "dcp_comm_backend",
        "dcp_q_replicate",
        "enable_expert_parallel",
        "enable_hc_sp",
        "enable_eplb",
        "eplb_config",
        "enable_dbo",
        "dbo_decode_token_threshold",
        "dbo_prefill_token_threshold",
        "ubatch_size",
        "enable_elastic_ep",
        "elastic_ep_max_dp_size",
        "dp_sync_interval",
        "max_parallel_loading_workers",
        "distributed_executor_backend",
        "nnodes",
        "node_rank",
        "worker_cls",
        "worker_extension_cls",
        "all2all_backend",
    ),
    "model": (
        "model",
        "runner",
        "convert",
        "tokenizer",
        "tokenizer_mode",
        "skip_tokenizer_init",
        "trust_remote_code",
        "revision",
        "code_revision",
        "config_format",
        "hf_config_path",
        "hf_overrides",
        "model_class_overrides",
        "model_impl",
        "max_model_len",
        "dtype",
        "quantization",
        "quantization_config",
        "allow_deprecated_quantization",
        "load_format",
        "model_loader_extra_config",
        "pooler_config",
        "language_model_only",
        "limit_mm_per_prompt",
        "enable_mm_embeds",
        "mm_encoder_only",
        "mm_encoder_tp_mode",
        "enable_lora",
        "max_loras",
        "max_lora_rank",
        "enforce_eager",
        "enable_prompt_embeds",
        "additional_config",
        "logits_processors",
        "logprobs_mode",
        "max_logprobs",
        "reasoning_parser",
        "reasoning_config",
        "enable_return_routed_experts",
        "ec_transfer_config",
    ),
    "backends": (
        "attention_backend",
        "attention_config",
        "mm_encoder_attn_backend",
        "mamba_backend",
        "gdn_prefill_backend",
        "kda_prefill_backend",
        "kda_decode_backend",
        "sparse_indexer_topk_backend",
        "kernel_config",
        "moe_backend",
        "compilation_config",
        "optimization_level",
        "cudagraph_capture_sizes",
        "max_cudagraph_capture_size",
    ),
    "speculation": (
        "speculative_config",
        "spec_method",
        "spec_model",
        "spec_tokens",
    ),
}
"""The options that can change the cache, the layers or whether start-up succeeds, by subject."""

MATTERING = frozenset(name for names in SUBJECTS.values() for name in names)


@dataclass(frozen=True, slots=True)
class OptionTable:
    """All options of one release."""

    release: str
    by_flag: Mapping[str, Option]
    """Every accepted spelling, in the order in which the release's parser knows them."""
    by_name: Mapping[str, Option]


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The known releases that have an option: first, last, and whether there are gaps between."""

    first: str
    last: str
    releases: tuple[str, ...]


def table_of(release: Release) -> OptionTable:
    """The options of `release`."""
    return _table(release.acts_as)


def option_of(name: str, release: Release) -> Option | None:
    """The option with vLLM's field name `name` (underscores) in `release`, or None if it has none."""
    return table_of(release).by_name.get(name)


def default_of(name: str, release: Release) -> Any:
    """The value that option `name` has in `release` when nobody sets it.

    None where the release has no such option, decides later, or takes a config object with its own defaults.
    """
    option = option_of(name, release)
    return None if option is None else option.default


def choices_of(name: str, release: Release) -> tuple[Any, ...] | None:
    """The values that the parser of `release` allows for option `name`, or None where it does not check."""
    option = option_of(name, release)
    return None if option is None else option.choices


def lifetime_of(flag: str) -> Lifetime | None:
    """The known releases whose parsers accept the spelling `flag` in full, or None where none does."""
    spans = [span for span, row in _rows() if flag in row["flags"] or flag in row.get("hidden", ())]
    having = tuple(name for name in KNOWN if any(span.covers(name) for span in spans))
    return Lifetime(having[0], having[-1], having) if having else None


def all_flags() -> tuple[str, ...]:
    """Every spelling that any known release accepts, without the opposites made by `--no-`."""
    found = {flag for _, row in _rows() for flag in row["flags"] if not flag.startswith("--no-")}
    return tuple(sorted(found))


def fields_of(name: str, release: Release) -> frozenset[str] | None:
    """The fields that `release` knows in the config object of option `name`, or None where it has no such object."""
    spans = _config_fields().get(name)
    if spans is None:
        return None
    return frozenset(field for field, span in spans.items() if release.within(span))


@cache
def _config_fields() -> Mapping[str, Mapping[str, Span]]:
    read: Mapping[str, Mapping[str, tuple[str | None, str | None]]] = json.loads(_data("config_fields.json"))
    return {
        name: {field: Span(since=since, until=until) for field, (since, until) in spans.items()}
        for name, spans in read.items()
    }


def _data(name: str) -> str:
    return (Path(__file__).parent / "data" / name).read_text("utf-8")


@cache
def _rows() -> tuple[tuple[Span, Mapping[str, Any]], ...]:
    rows: Sequence[Mapping[str, Any]] = json.loads(_data("options.json"))
    return tuple((Span(since=row.get("since"), until=row.get("until")), row) for row in rows)


def _option(row: Mapping[str, Any]) -> Option:
    choices = row.get("choices")
    return Option(
        name=row["dest"],
        flags=tuple(row["flags"]),
        kind=Kind(row["kind"]),
        hidden=tuple(row.get("hidden", ())),
        nargs=row.get("nargs"),
        optional=row.get("optional", False),
        append=row.get("append", False),
        choices=None if choices is None else tuple(choices),
        default=row.get("default"),
        const=row.get("const"),
        deprecated=row.get("deprecated", False),
        since=row.get("since"),
        until=row.get("until"),
    )


@cache
def _table(name: str) -> OptionTable:
    options = [_option(row) for span, row in _rows() if span.covers(name)]
    return OptionTable(
        release=name,
        by_flag={flag: option for option in options for flag in (*option.flags, *option.hidden)},
        by_name={option.name: option for option in options},
    )


def _inverse(flag: str) -> str | None:
    """`--disable-x` for `--enable-x` and the other way round."""
    for prefix, other in (("--enable-", "--disable-"), ("--disable-", "--enable-")):
        if flag.startswith(prefix):
            return other + flag.removeprefix(prefix)
    return None
