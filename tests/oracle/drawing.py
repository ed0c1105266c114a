"""Questions drawn by a seed: launches as people deploy them, and random options of a release's own parser.

The draw depends on the seed, the release, the configs and kvplan's option table alone, so that a figure can be had
again. Neither kind looks at what kvplan makes of a launch: that is what the answers are for.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from kvplan.launch.options import Kind, Option, table_of
from kvplan.releases import resolve
from tests.oracle.questions import Question, of_line

Config = Mapping[str, Any]


class Draw(StrEnum):
    """What kind of launch is drawn."""

    LAUNCHES = "launches"
    """Published configs with the options that deployments use, in sizes that go together."""
    OPTIONS = "options"
    """One to four options of the parser, each with a value of its kind, whatever they mean."""


GPUS = ("h100", "h200", "b200", "a100", "l40s", "l4", "rtx4090", "rtxpro6000", "gb200", "a10")
LARGE = ("h200", "b200", "h100", "gb200")
"""Cards that large models are served on."""
MANY_LAYERS = 60
"""Decoder layers from which on a model is served on several large cards."""

NOT_DRAWN = frozenset(
    {"model", "model_tag", "config", "host", "port", "uds", "ssl_keyfile", "ssl_certfile", "ssl_ca_certs", "root_path"}
    | {"headless", "api_server_count", "download_dir", "hf_token", "code_revision", "revision", "tokenizer_revision"}
    | {"hf_config_path", "tokenizer", "chat_template", "middleware", "lora_modules", "allowed_local_media_path"}
    | {"log_config_file", "grpc", "nnodes", "node_rank", "master_addr", "master_port", "worker_cls", "scheduler_cls"}
)
"""Options that name files, machines or code that the question does not bring, or that no engine sees."""

_NUMBERS = (0, 1, 2, 3, 4, 7, 8, 16, 32, 48, 64, 100, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 131072)
_UNKNOWN = "unrecognized arguments: "
_SHARES = (0.0, 0.1, 0.5, 0.85, 0.9, 0.95, 1.0, 1.5)


def drawn(kind: Draw, release: str, configs: Mapping[str, Config], count: int, seed: int) -> list[Question]:
    """`count` questions of `release` about some of `configs` (contents by name)."""
    dice = random.Random(f"{kind}/{release}/{seed}")
    names = sorted(configs)
    make: Callable[[random.Random, str, Config], Iterator[str]] = _launch if kind is Draw.LAUNCHES else _options
    questions = []
    for number in range(count):
        name = dice.choice(names)
        config = configs[name]
        gpus = LARGE if kind is Draw.LAUNCHES and _layers(config) >= MANY_LAYERS else GPUS
        told = {
            "id": f"drawn/{kind}/{release}/{seed}-{number:04}",
            "release": release,
            "gpu": dice.choice(gpus),
            "config": name,
            "flags": list(make(dice, release, config)),
            "available_bytes": dice.choice((4, 16, 40, 60, 120)) << 30,
            "category": f"drawn-{kind}",
        }
        questions.append(of_line(told))
    return questions


def of_the_server(record: Mapping[str, Any]) -> bool:
    """Whether a record only says that the oracle reads the engine's options and not those of the API server."""
    told = str(record["outcome"].get("first_line", ""))
    known = table_of(resolve(record["release"])).by_flag
    named = [word.partition("=")[0] for word in told.removeprefix(_UNKNOWN).split() if word.startswith("--")]
    return told.startswith(_UNKNOWN) and all(name in known for name in named)


def _launch(dice: random.Random, release: str, config: Config) -> Iterator[str]:
    """The options of a deployment: parallel sizes, lengths, cache dtype, batch, caching, now and then another."""
    known = table_of(resolve(release)).by_name
    text = _text(config)
    ranks = dice.choice((1, 1, 2, 4, 8) if _layers(config) < MANY_LAYERS else (4, 8, 8))
    yield from ("-tp", str(ranks)) if ranks > 1 else ()
    if dice.random() < 0.1:
        yield from ("-pp", "2")
    if dice.random() < 0.7:
        yield from ("--max-model-len", str(dice.choice((4096, 8192, 16384, 32768, 65536, 131072))))
    if dice.random() < 0.35:
        yield from ("--kv-cache-dtype", dice.choice(("fp8", "fp8", "fp8_e4m3", "auto", "bfloat16")))
        if dice.random() < 0.25 and "kv_cache_dtype_skip_layers" in known:
            first = dice.randrange(0, 4)
            yield from ("--kv-cache-dtype-skip-layers", str(first), str(first + 1))
    if dice.random() < 0.4:
        yield from ("--max-num-seqs", str(dice.choice((8, 32, 64, 128, 256, 512))))
    if dice.random() < 0.35:
        yield from ("--max-num-batched-tokens", str(dice.choice((2048, 4096, 8192, 16384, 32768))))
    if dice.random() < 0.3:
        yield dice.choice(("--enable-prefix-caching", "--no-enable-prefix-caching"))
    if dice.random() < 0.2:
        yield "--enforce-eager"
    if dice.random() < 0.4:
        yield from ("--gpu-memory-utilization", str(dice.choice((0.8, 0.85, 0.9, 0.95))))
    if _experts(text) and dice.random() < 0.4:
        yield "--enable-expert-parallel"
        if dice.random() < 0.3:
            yield from ("-dp", str(dice.choice((2, 4, 8))))
    if text.get("num_nextn_predict_layers") and dice.random() < 0.4:
        tokens = dice.choice((1, 2, 3))
        yield from ("--speculative-config", json.dumps({"method": "mtp", "num_speculative_tokens": tokens}))
    if text.get("kv_lora_rank") and ranks > 1 and dice.random() < 0.2:
        yield from ("-dcp", str(dice.choice((2, ranks))))
    if dice.random() < 0.1:
        yield from ("--block-size", str(dice.choice((16, 32, 64, 128))))
    if dice.random() < 0.1:
        yield from ("--dtype", dice.choice(("auto", "bfloat16", "float16")))
    if dice.random() < 0.1 and "attention_backend" in known:
        yield from ("--attention-backend", dice.choice(("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN")))
    if dice.random() < 0.08:
        yield from (
            "--kv-transfer-config",
            json.dumps({"kv_connector": "NixlConnector", "kv_role": dice.choice(("kv_both", "kv_producer"))}),
        )
    if dice.random() < 0.5:
        yield "--trust-remote-code"


def _options(dice: random.Random, release: str, config: Config) -> Iterator[str]:
    """Some options of the parser with values of their kinds; a model that is large gets a length besides."""
    table = table_of(resolve(release))
    choice = [one for one in table.by_name.values() if one.flags and one.name not in NOT_DRAWN and one.kind in _VALUES]
    for option in dice.sample(choice, dice.choice((1, 1, 2, 2, 3, 4))):
        yield from _VALUES[option.kind](dice, option)
    if dice.random() < 0.3:
        yield from ("-tp", str(dice.choice((2, 4, 8))))
    if _layers(config) >= MANY_LAYERS or dice.random() < 0.3:
        yield from ("--max-model-len", str(dice.choice((4096, 16384, 40000))))


def _flag(dice: random.Random, option: Option) -> Iterator[str]:
    yield dice.choice(option.flags)


def _chosen(values: Sequence[Any]) -> Callable[[random.Random, Option], Iterator[str]]:
    def words(dice: random.Random, option: Option) -> Iterator[str]:
        choices = [str(one) for one in option.choices or values]
        yield option.flag
        yield from dice.sample(choices, min(len(choices), 2)) if option.is_list else (dice.choice(choices),)

    return words


def _text_value(dice: random.Random, option: Option) -> Iterator[str]:
    """Text only where the parser lists what it takes: any other word is no question about the cache."""
    if option.choices:
        yield from _chosen(())(dice, option)
    elif isinstance(option.default, str):
        yield from (option.flag, option.default)


_VALUES: Mapping[Kind, Callable[[random.Random, Option], Iterator[str]]] = {
    Kind.BOOL: _flag,
    Kind.TRUE: _flag,
    Kind.INT: _chosen(_NUMBERS),
    Kind.FLOAT: _chosen(_SHARES),
    Kind.HUMAN_INT: _chosen((*_NUMBERS, "2k", "2K")),
    Kind.HUMAN_INT_OR_AUTO: _chosen((*_NUMBERS[6:], "auto", "8k")),
    Kind.STR: _text_value,
    Kind.LOWER: _text_value,
    Kind.ANY: _text_value,
}


def _text(config: Config) -> Config:
    """The language model's part."""
    inner = config.get("text_config") or config.get("llm_config")
    return inner if isinstance(inner, Mapping) else config


def _layers(config: Config) -> int:
    value = _text(config).get("num_hidden_layers")
    return value if isinstance(value, int) else 0


def _experts(text: Config) -> bool:
    return any(name in text for name in ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"))
