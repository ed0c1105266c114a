"""Connectors, ranks, units of shared prefixes and options that keep the V1 runner."""

from __future__ import annotations

import json

import pytest

from kvplan.engine import Plan
from tests import asking

GEMMA = "google/gemma-3-27b-it"
LLAMA = "meta-llama/Llama-3.1-8B"
EXPERTS = "Qwen/Qwen3-30B-A3B"
NEXT = "Qwen/Qwen3-Next-80B-A3B-Instruct"


def planned(model: str, *flags: str, version: str = "0.33.0", gpu: str = "h200", **environment: str) -> Plan:
    return asking.planned(["vllm", "serve", model, *flags], release=version, gpu=gpu, environment=environment)


def refusal(model: str, *flags: str, version: str = "0.33.0", **environment: str) -> tuple[str, str, str]:
    error = planned(model, *flags, version=version, **environment).error
    assert error is not None
    return error.stage, error.type, error.message


def connector(name: str | None, role: str | None = "kv_both", **more: object) -> tuple[str, str]:
    told = {"kv_connector": name, "kv_role": role, **more}
    return "--kv-transfer-config", json.dumps({key: value for key, value in told.items() if value is not None})


def holding(*names: str) -> tuple[str, str]:
    children = [{"kv_connector": name, "kv_role": "kv_both"} for name in names]
    return connector("MultiConnector", kv_connector_extra_config={"connectors": children})


@pytest.mark.parametrize(
    ("flags", "version", "disabled"),
    [
        (connector("NixlConnector"), "0.33.0", False),
        (connector("NixlConnector"), "0.22.1", False),
        (connector("NixlConnector"), "0.21.0", True),
        (connector("LMCacheConnectorV1"), "0.33.0", True),
        (connector("LMCacheConnectorV1"), "0.16.0", True),
        (connector("MoRIIOConnector"), "0.29.0", True),
        (connector("MoRIIOConnector"), "0.30.0", False),
        (holding("NixlConnector", "OffloadingConnector"), "0.33.0", False),
        (holding("NixlConnector", "LMCacheConnectorV1"), "0.33.0", True),
        (("--kv-offloading-size", "4"), "0.33.0", False),
        (("--kv-offloading-size", "4", "--kv-offloading-backend", "lmcache"), "0.33.0", True),
        (("--kv-offloading-size", "4", "--kv-offloading-backend", "lmcache"), "0.21.0", False),
    ],
)
def test_connectors_and_the_hybrid_manager(flags: tuple[str, ...], version: str, disabled: bool) -> None:
    settings = planned(GEMMA, *flags, version=version).settings
    assert settings is not None
    assert settings.hybrid_manager_disabled is disabled


def test_a_connector_without_the_hybrid_manager_gives_every_layer_the_whole_request() -> None:
    """62 layers of 16 heads of 128: 16 * 2 * 16 * 128 * 2 bytes a block and layer, all of them in one group."""
    with_nixl, with_lmcache = (
        planned(GEMMA, *connector("NixlConnector")),
        planned(GEMMA, *connector("LMCacheMPConnector")),
    )
    assert len(with_lmcache.groups) == 1
    assert len(with_nixl.groups) > 1
    assert with_lmcache.capacity is not None
    assert with_lmcache.capacity.num_blocks == (60 << 30) // (62 * 16 * 2 * 16 * 128 * 2)


@pytest.mark.parametrize(
    ("model", "flags", "layout"),
    [
        (LLAMA, (), "LBNHC"),
        (LLAMA, connector("NixlConnector"), "LBHNC"),
        (LLAMA, connector("OffloadingConnector"), "LBHNC"),
        (LLAMA, ("--kv-offloading-size", "4"), "LBHNC"),
        (LLAMA, connector("LMCacheConnectorV1"), "LBNHC"),
        (LLAMA, holding("NixlConnector", "SimpleCPUOffloadConnector"), "LBHNC"),
        ("deepseek-ai/DeepSeek-V2-Lite", connector("NixlConnector"), "LBNHC"),
        ("deepseek-ai/DeepSeek-V2-Lite", connector("OffloadingConnector"), "LBHNC"),
    ],
)
def test_connectors_order_the_cache(model: str, flags: tuple[str, ...], layout: str) -> None:
    settings = planned(model, *flags).settings
    assert settings is not None
    assert settings.kv_cache_layout == layout


@pytest.mark.parametrize(
    ("flags", "version", "stage", "text"),
    [
        (connector("NixlConnector", None), "0.33.0", "options", "Please specify kv_role"),
        (connector("NixlConnector", "kv_nobody"), "0.16.0", "options", "Unsupported kv_role: kv_nobody"),
        (connector("Nope"), "0.33.0", "options", "Unsupported connector type: Nope"),
        (connector("Nope"), "0.17.1", "options", "Unsupported connector type: Nope"),
        ((*connector("Nope"), "--enforce-eager"), "0.17.1", "kv_cache_view", "Unsupported connector type: Nope"),
        (connector("Nope"), "0.16.0", "kv_cache_view", "Unsupported connector type: Nope"),
        (connector("P2pNcclConnector"), "0.24.0", "options", "Unsupported connector type: P2pNcclConnector"),
        (holding("NixlConnector", "ExampleHiddenStatesConnector"), "0.33.0", "specs", "found 2 different layouts"),
        (connector("MultiConnector"), "0.33.0", "specs", ""),
        (connector("MultiConnector"), "0.24.0", "kv_cache_view", ""),
        (connector("MultiConnector"), "0.28.0", "specs", ""),
    ],
)
def test_refused_connectors(flags: tuple[str, ...], version: str, stage: str, text: str) -> None:
    found = refusal(GEMMA, "--max-model-len", "8192", *flags, version=version)
    assert found[0] == stage
    assert text in found[2]


def test_older_releases_know_two_orders_of_the_cache() -> None:
    stage, _, message = refusal(LLAMA, version="0.20.2", VLLM_KV_CACHE_LAYOUT="BLHNC")
    assert (stage, message[:23]) == ("kv_cache_view", "Invalid value 'BLHNC' f")
    assert planned(LLAMA, version="0.20.2", VLLM_KV_CACHE_LAYOUT="HND").error is None
    assert planned(LLAMA, version="0.29.0", VLLM_KV_CACHE_LAYOUT="BLHNC").error is None


def test_a_class_of_another_module_asks_for_nothing() -> None:
    settings = planned(GEMMA, *connector("Own", kv_connector_module_path="my.module")).settings
    assert settings is not None
    assert settings.hybrid_manager_disabled
    assert settings.kv_cache_layout == "LBNHC"


def test_nixl_shards_wholly_or_not_at_all() -> None:
    flags = connector("NixlConnector")
    half = refusal("deepseek-ai/DeepSeek-V3", "-tp", "8", "-dcp", "4", *flags)
    assert "must be 1 or equal to the NIXL transfer parallel size=8" in half[2]
    one_head = ("--hf-overrides", '{"num_key_value_heads": 1}')
    grouped = refusal(LLAMA, "-tp", "8", "-dcp", "8", *one_head, *flags)
    assert "only supported for MLA models" in grouped[2]
    assert planned("deepseek-ai/DeepSeek-V3", "-tp", "8", "-dcp", "8", *flags).error is None
    assert planned("deepseek-ai/DeepSeek-V3", "-tp", "8", "-dcp", "4", *flags, version="0.28.0").error is None


@pytest.mark.parametrize(
    ("model", "flags", "version", "exception", "text"),
    [
        (EXPERTS, ("--enable-eplb", "-tp", "2"), "0.33.0", "ValidationError", "must be True to use EPLB"),
        (EXPERTS, ("--enable-eplb", "--enable-expert-parallel"), "0.33.0", "ValidationError", "TP=1, PCP=1, DP=1"),
        (EXPERTS, ("--enable-eplb", "--enable-expert-parallel"), "0.25.1", "ValidationError", "TP=1,DP=1"),
        (EXPERTS, ("--eplb-config", '{"num_redundant_experts": 4}'), "0.33.0", "ValidationError", "set to 4 but EPLB"),
        (EXPERTS, ("--enable-elastic-ep",), "0.33.0", "ValidationError", "with enable_eplb=True"),
        (EXPERTS, ("--enable-dbo",), "0.33.0", "ValidationError", "allgather_reducescatter is not supported"),
        (EXPERTS, ("--enable-dbo", "--all2all-backend", "nixl_ep"), "0.23.0", "ValidationError", "nixl_ep is not"),
        (LLAMA, ("--ubatch-size", "2"), "0.16.0", "ValidationError", "Microbatching currently only supports"),
        (EXPERTS, ("-dp", "2", "-dpl", "4"), "0.33.0", "ValidationError", "data_parallel_size_local (4) must be <="),
        (EXPERTS, ("-dp", "2", "-dpn", "3"), "0.33.0", "ValidationError", "data_parallel_rank (3) must be in"),
        (EXPERTS, ("-dpe",), "0.33.0", "ValueError", "requires a data-parallel rank"),
        (EXPERTS, ("-dpe",), "0.26.0", "AssertionError", "data_parallel_rank or node_rank must be specified"),
        (EXPERTS, ("-dp", "2", "-dph"), "0.33.0", "ValueError", "requires `--data-parallel-size-local`"),
        (EXPERTS, ("-dp", "2", "-dph", "-dpe"), "0.33.0", "ValueError", "cannot be enabled together"),
        (LLAMA, ("-dp", "2", "-dpn", "0"), "0.33.0", "ValueError", "Non-MoE models do not support external"),
        (EXPERTS, ("-dp", "4", "-dpn", "0", "-dpl", "2"), "0.33.0", "ValueError", "requires `--data-parallel-size-lo"),
        (EXPERTS, ("--nnodes", "2"), "0.33.0", "ValueError", "must evenly divide the total world size (1)"),
        (EXPERTS, ("--nnodes", "2"), "0.26.0", "AssertionError", "world_size=1 must be divisible by nnodes=2."),
        (EXPERTS, ("-tp", "2", "--nnodes", "2", "-r", "2"), "0.33.0", "ValueError", "must be between 0 and 1"),
        (
            EXPERTS,
            ("-tp", "4", "--nnodes", "2", "--distributed-executor-backend", "ray"),
            "0.33.0",
            "ValidationError",
            "nnodes > 1 can only be set",
        ),
    ],
)
def test_refused_ranks(model: str, flags: tuple[str, ...], version: str, exception: str, text: str) -> None:
    stage, found, message = refusal(model, *flags, version=version)
    assert (stage, found) == ("options", exception)
    assert text in message


@pytest.mark.parametrize(
    "flags",
    [
        ("--enable-eplb", "--enable-expert-parallel", "-tp", "2"),
        ("-dp", "4", "-dpn", "3"),
        ("-dp", "4", "--nnodes", "4", "-r", "3", "-dpe"),
        ("-dp", "4", "-dpl", "2", "-dph"),
        ("-dp", "2", "--enable-expert-parallel", "--enable-dbo", "--all2all-backend", "deepep_low_latency"),
    ],
)
def test_ranks_that_are_fine(flags: tuple[str, ...]) -> None:
    assert planned(EXPERTS, *flags).error is None


@pytest.mark.parametrize(
    ("model", "unit", "version", "text"),
    [
        (LLAMA, 16, "0.33.0", None),
        (LLAMA, 8, "0.33.0", "with a single KV cache group, prefix-cache hits land on the block size (16)"),
        (LLAMA, 8, "0.31.0", None),
        (GEMMA, 8, "0.33.0", None),
        (GEMMA, 32, "0.33.0", "must be divisible by prefix_match_unit"),
        (GEMMA, 32, "0.31.0", None),
    ],
)
def test_prefix_match_unit_divides_blocks(model: str, unit: int, version: str, text: str | None) -> None:
    error = planned(model, "--prefix-match-unit", str(unit), version=version).error
    if text is None:
        assert error is None
    else:
        assert error is not None
        assert (error.stage, error.type) == ("capacity", "ValueError")
        assert text in error.message
    assert planned(model, "--prefix-match-unit", str(unit), "--no-enable-prefix-caching", version=version).error is None


@pytest.mark.parametrize(
    ("flags", "version", "runner"),
    [
        ((), "0.24.0", "V2"),
        (("-q", "fp8"), "0.23.0", "V2"),
        (("--kv-sharing-fast-prefill",), "0.24.0", "V1"),
        (("--kv-sharing-fast-prefill",), "0.29.0", "V1"),
        (("--kv-sharing-fast-prefill",), "0.30.0", "V2"),
        (("--enable-prompt-embeds",), "0.28.0", "V1"),
        (("--enable-prompt-embeds",), "0.29.0", "V2"),
        (("--logprobs-mode", "raw_logits"), "0.25.1", "V1"),
        (("--logprobs-mode", "raw_logits"), "0.26.0", "V2"),
        (("--compilation-config", '{"mode": 1}'), "0.31.0", "V1"),
        (("--compilation-config", '{"mode": 1}'), "0.32.0", "V2"),
        (("--compilation-config", '{"pass_config": {"enable_sp": true}}', "-tp", "2"), "0.30.0", "V1"),
        (("-pp", "2", "--distributed-executor-backend", "external_launcher"), "0.33.0", "V1"),
    ],
)
def test_options_that_keep_the_first_runner(flags: tuple[str, ...], version: str, runner: str) -> None:
    settings = planned(LLAMA, *flags, version=version).settings
    assert settings is not None
    assert settings.model_runner == runner


@pytest.mark.parametrize(("version", "runner"), [("0.22.1", "V1"), ("0.23.0", "V2")])
def test_thinking_within_a_budget_keeps_the_first_runner_in_0_22(version: str, runner: str) -> None:
    settings = planned("Qwen/Qwen3-0.6B", "--reasoning-parser", "qwen3", version=version).settings
    assert settings is not None
    assert settings.model_runner == runner


def test_the_second_runner_cannot_be_forced_on_what_it_lacks() -> None:
    flags, version = ("--kv-sharing-fast-prefill",), "0.28.0"
    stage, _, message = refusal(LLAMA, *flags, version=version, VLLM_USE_V2_MODEL_RUNNER="1")
    assert (stage, message) == ("options", "Model Runner V2 does not yet support: KV sharing fast prefill")
    states = refusal(NEXT, "-tp", "4", version="0.20.2", VLLM_USE_V2_MODEL_RUNNER="1")
    assert states[2] == "VLLM_USE_V2_MODEL_RUNNER does not yet support: hybrid/mamba models"
    forced = refusal(LLAMA, "-pcp", "2", version="0.27.1")
    assert forced[2] == "Model Runner V2 does not yet support: prefill context parallelism"


@pytest.mark.parametrize(("version", "exception"), [("0.28.0", "AssertionError"), ("0.33.0", "ZeroDivisionError")])
def test_a_stage_without_layers_has_no_pool(version: str, exception: str) -> None:
    """32 layers over 33 stages."""
    stage, found, _ = refusal(LLAMA, "-pp", "33", version=version)
    assert (stage, found) == ("capacity", exception)


@pytest.mark.parametrize(
    ("flags", "version", "text"),
    [
        (("--max-num-partial-prefills", "2"), "0.26.0", "Concurrent Partial Prefill is not supported"),
        (("--long-prefill-token-threshold", "200000"), "0.33.0", "cannot be greater than the max_model_len (131072)"),
        (("-q", "torchao"), "0.33.0", "TorchAOConfig.__init__() missing required positional arguments"),
        (("-q", "compressed-tensors"), "0.20.2", "CompressedTensorsConfig.__init__() missing"),
        (("--attention-backend", "auto"), "0.17.1", "Unknown attention backend: 'AUTO'"),
        (("--use-replayssm",), "0.33.0", "not supported for architecture 'LlamaForCausalLM'"),
    ],
)
def test_options_refused_with_the_config(flags: tuple[str, ...], version: str, text: str) -> None:
    stage, _, message = refusal(LLAMA, *flags, version=version)
    assert stage == "options"
    assert text in message


def test_options_that_later_releases_take() -> None:
    assert planned(LLAMA, "--long-prefill-token-threshold", "200000", version="0.26.0").error is None
    assert planned(LLAMA, "--attention-backend", "auto", version="0.18.1").error is None


@pytest.mark.parametrize(
    ("flags", "version", "stage"),
    [
        (("--long-prefill-token-threshold", "100"), "0.17.1", "options"),
        (("--long-prefill-token-threshold", "100"), "0.26.0", "capacity"),
        (("--long-prefill-token-threshold", "100"), "0.27.1", None),
        (("--disable-chunked-mm-input",), "0.33.0", "capacity"),
        (("--disable-chunked-mm-input",), "0.16.0", "options"),
    ],
)
def test_mode_align_ends_steps_on_blocks(flags: tuple[str, ...], version: str, stage: str | None) -> None:
    error = planned(NEXT, "-tp", "4", "--enable-prefix-caching", *flags, version=version).error
    assert (None if error is None else error.stage) == stage


def test_dense_mla_does_not_share_tokens_twice() -> None:
    flags = ("-tp", "2", "-pcp", "2", "-dcp", "2")
    stage, exception, message = refusal("deepseek-ai/DeepSeek-V2-Lite", *flags)
    assert (stage, exception) == ("layers", "NotImplementedError")
    assert message == "MLAAttention does not support PCP+DCP."


def test_only_qwen4_spreads_hidden_states() -> None:
    stage, _, message = refusal(LLAMA, "-tp", "2", "--enable-hc-sp")
    assert (stage, message) == ("parallel", "--enable-hc-sp is not supported for this model")
    assert planned(LLAMA, "--enable-hc-sp").error is None


def test_options_are_refused_before_a_model_that_cannot_be_built() -> None:
    """DeepSeek-V4's indexer takes no bfloat16 keys; vLLM has read a context of 99 million tokens before that."""
    broken = ("--attention-config", '{"indexer_kv_dtype": "bf16"}')
    assert refusal("deepseek-ai/DeepSeek-V4-Flash", *broken)[0] == "layers"
    stage, _, message = refusal("deepseek-ai/DeepSeek-V4-Flash", *broken, "--max-model-len", "99000000")
    assert stage == "options"
    assert "is greater than the derived max_model_len" in message
