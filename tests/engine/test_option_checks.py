"""Options that the engine config refuses whatever they do to the cache, in vLLM's order and words."""

from __future__ import annotations

import json

import pytest

from kvplan.engine import Plan
from kvplan.engine.values import StartupError
from tests import asking

LLAMA = "meta-llama/Llama-3.1-8B"
EXPERTS = "Qwen/Qwen3-30B-A3B"
NEXT = "Qwen/Qwen3-Next-80B-A3B-Instruct"
SEES = "google/gemma-3-27b-it"
LATENT = "deepseek-ai/DeepSeek-V3"
NEMOTRON = "nvidia/Nemotron-H-8B-Base-8K"
NGRAM = ("--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}')


def planned(model: str, *flags: str, version: str = "0.33.0", **environment: str) -> Plan:
    return asking.planned(["vllm", "serve", model, *flags], release=version, gpu="h200", environment=environment)


def refused(model: str, *flags: str, version: str = "0.33.0", **environment: str) -> StartupError:
    error = planned(model, *flags, version=version, **environment).error
    assert error is not None
    return error


@pytest.mark.parametrize(
    ("model", "flags", "version", "text"),
    [
        (
            LLAMA,
            ("--max-num-active-seqs", "300", "--max-num-seqs", "256"),
            "0.31.0",
            "max_num_active_seqs (300) cannot be greater than max_num_seqs (256).",
        ),
        (LLAMA, ("--stream-interval", "0"), "0.33.0", "stream_interval\n  Input should be greater than or equal to 1"),
        (LLAMA, ("--kv-cache-metrics-sample", "0"), "0.16.0", "kv_cache_metrics_sample\n  Input should be greater"),
        (LLAMA, ("--safetensors-prefetch-block-size", "0"), "0.33.0", "safetensors_prefetch_block_size\n"),
        (LLAMA, ("--numa-bind-nodes", "0"), "0.33.0", "numa_bind_nodes and numa_bind_cpus require numa_bind=True."),
        (LLAMA, ("--ray-workers-use-nsight",), "0.16.0", "Unable to use nsight profiling unless workers run with Ray."),
        (LLAMA, ("--collect-detailed-traces", "model"), "0.33.0", "collect_detailed_traces requires"),
        (LLAMA, ("--show-hidden-metrics-for-version", "x"), "0.33.0", "Invalid version: 'x'"),
        (LLAMA, ("--distributed-executor-backend", "bogus"), "0.33.0", "not enough values to unpack"),
        (LLAMA, ("--per-request-spec-decode-metrics", "summary"), "0.33.0", "requires speculative decoding"),
        (LLAMA, ("--return-sampling-mask",), "0.33.0", "requires logprobs_mode='processed_logprobs'"),
        (SEES, ("--mm-tensor-ipc", "torch_shm"), "0.33.0", "torch_shm is known to fail without"),
        (LLAMA, ("--engram-config", '{"cpu_offload": false}'), "0.33.0", "EngramConfig requires a model"),
        (LLAMA, ("--enable-return-routed-experts",), "0.33.0", "AuxOutput Connector only supports MoE models."),
        (EXPERTS, ("--enable-return-routed-experts", "-pp", "2"), "0.33.0", "pipeline parallelism (PP > 1)"),
        (EXPERTS, ("--enable-return-routed-experts", "-pp", "2"), "0.25.1", "pipeline parallelism (PP > 1)"),
        (EXPERTS, ("--enable-return-routed-experts",), "0.21.0", "is not yet validated with: async scheduling"),
        (LLAMA, ("--enable-mamba-cache-stochastic-rounding",), "0.33.0", "requires the SSM cache to be float16"),
        (LLAMA, ("--offload-backend", "prefetch"), "0.33.0", "offload_num_in_group (1) must be <= offload_group_size"),
        (LLAMA, ("--enable-lora", "--max-loras", "4", "--max-cpu-loras", "2"), "0.16.0", "must be >= max_loras (4)."),
        ("moonshotai/Kimi-Linear-48B-A3B-Instruct", ("--enable-lora",), "0.33.0", "LoRA is not supported for Kimi"),
    ],
)
def test_refused_by_the_config(model: str, flags: tuple[str, ...], version: str, text: str) -> None:
    error = refused(model, *flags, version=version)
    assert (error.stage, error.type) == ("options", "ValidationError")
    assert text in error.message


@pytest.mark.parametrize(
    ("model", "flags", "text"),
    [
        (
            LLAMA,
            ("--mamba-backend", "abc"),
            "Unknown Mamba SSU backend: 'ABC'. Valid options are: TRITON, FLASHINFER, CPU",
        ),
        (
            LLAMA,
            ("--mamba-ssu-algorithm", "simple"),
            "Mamba SSU algorithm selection is only supported with the FlashIn",
        ),
        (LLAMA, ("--enable-fault-tolerance",), "Fault tolerance requires external load balancer mode"),
        (LLAMA, ("--default-mm-loras", '{"image": "x"}'), "Default modality-specific LoRA(s) were provided"),
    ],
)
def test_refused_before_the_config(model: str, flags: tuple[str, ...], text: str) -> None:
    error = refused(model, *flags)
    assert (error.stage, error.type) == ("options", "ValueError")
    assert text in error.message


def test_multimodal_options_are_held_where_a_model_sees() -> None:
    assert planned(LLAMA, "--mm-processor-cache-gb", "-1").error is None
    assert "mm_processor_cache_gb" in refused(SEES, "--mm-processor-cache-gb", "-1").message


def test_adapters_are_asked_about_late_in_older_releases() -> None:
    older = planned("moonshotai/Kimi-Linear-48B-A3B-Instruct", "--enable-lora", version="0.32.0")
    assert older.error is None
    assert "KV123" in {
        finding["rule"]
        for finding in asking.told(
            "check",
            "--vllm-version",
            "0.32.0",
            "--gpu",
            "h200",
            "--offline",
            "--available-kv-memory",
            "60GiB",
            "--",
            "vllm",
            "serve",
            "moonshotai/Kimi-Linear-48B-A3B-Instruct",
            "--enable-lora",
        )["findings"]
    }


def test_nixl_is_asked_before_offloading_takes_its_place() -> None:
    nixl = ("--kv-transfer-config", json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"}))
    error = refused(LATENT, "-tp", "8", "-dcp", "4", *nixl, "--kv-offloading-size", "64")
    assert "must be 1 or equal to the NIXL transfer parallel size=8" in error.message


@pytest.mark.parametrize(("version", "more"), [("0.28.0", 0), ("0.33.0", 32)])
def test_the_canvas_of_a_diffusion_config_needs_states(version: str, more: int) -> None:
    canvas = ("--diffusion-config", '{"canvas_length": 32}')
    plans = planned(NEXT, version=version), planned(NEXT, *canvas, version=version)
    plain, drawn = (next(layer for layer in plan.layers if layer.state_shapes) for plan in plans)
    assert plain.state_shapes == drawn.state_shapes
    assert plain.states_per_request is not None
    assert drawn.states_per_request == plain.states_per_request + more


@pytest.mark.parametrize(
    ("model", "flags", "version", "text"),
    [
        (LLAMA, (), "0.28.0", "only supported for Nemotron-H models (got architecture 'LlamaForCausalLM')"),
        (LLAMA, (), "0.33.0", "not supported for architecture 'LlamaForCausalLM'"),
        (NEMOTRON, (), "0.33.0", "Triton ReplaySSM requires Model Runner V1"),
        (NEMOTRON, ("--mamba-backend", "flashinfer"), "0.33.0", "FlashInfer ReplaySSM does not support prefix caching"),
        (NEMOTRON, ("--mamba-backend", "flashinfer", "--replayssm-buffer-len", "32"), "0.33.0", "buffer-len <= 16"),
        (NEMOTRON, (*NGRAM, "--no-enable-prefix-caching"), "0.33.0", "requires --mamba-backend flashinfer"),
        (NEMOTRON, NGRAM, "0.31.0", "RecoverSSM is only supported for Kimi-K3 KDA"),
        (NEMOTRON, NGRAM, "0.28.0", "--use-replayssm does not support speculative decoding"),
    ],
)
def test_replayed_states_and_what_excludes_them(model: str, flags: tuple[str, ...], version: str, text: str) -> None:
    assert text in refused(model, "--use-replayssm", *flags, version=version).message


def test_an_encoder_alone_shares_no_prefixes() -> None:
    for version, shares in (("0.33.0", False), ("0.28.0", True)):
        settings = planned(SEES, "--mm-encoder-only", version=version).settings
        assert settings is not None
        assert settings.prefix_caching is shares


def test_ranks_come_before_what_the_runner_and_the_states_refuse() -> None:
    error = refused(LLAMA, "-tp", "4", "-dcp", "2", "--enable-dbo", "--use-replayssm")
    assert "Decode context parallelism for GQA/MQA requires" in error.message


def test_the_model_comes_before_its_draft() -> None:
    drafts = ("--speculative-config", '{"method": "medusa", "num_speculative_tokens": 3}')
    assert "max_model_len must be a positive integer" in refused(LLAMA, "--max-model-len", "0", *drafts).message
    assert "tp_size=2 must be divisible by dcp_size=8" in refused(LLAMA, "-tp", "2", "-dcp", "8", *drafts).message


def test_a_draft_takes_no_more_than_its_target() -> None:
    draft = {"model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 2, "method": "draft_model", "max_model_len": 8192}
    flags = ("--speculative-config", json.dumps(draft), "--max-model-len", "4096")
    message = refused("Qwen/Qwen3-8B", *flags).message
    assert message == "speculative_max_model_len=8192 cannot be larger than target_max_model_len=4096"


def test_fast_prefill_excludes_drafts_from_states() -> None:
    flags = ("--kv-sharing-fast-prefill", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}')
    assert "Fast prefill optimization" in refused(LATENT, "-tp", "8", *flags, version="0.29.0").message


def test_a_draft_runner_schedules_like_a_generating_one() -> None:
    settings = [planned(LLAMA, "--runner", runner).settings for runner in ("generate", "draft")]
    assert settings[0] is not None
    assert settings[1] is not None
    assert settings[0].async_scheduling is settings[1].async_scheduling is True


@pytest.mark.parametrize(
    ("version", "lacks"),
    [
        ("0.28.0", None),
        ("0.30.0", None),
        ("0.31.0", "pipeline parallelism with async scheduling"),
        ("0.33.0", None),
    ],
)
def test_the_v1_runner_says_what_it_lacks(version: str, lacks: str | None) -> None:
    assert planned(LLAMA, "-pp", "2", version=version, VLLM_USE_V2_MODEL_RUNNER="0").error is None
    asked = () if version == "0.33.0" else ("--async-scheduling",)
    plan = planned(LLAMA, "-pp", "2", *asked, version=version, VLLM_USE_V2_MODEL_RUNNER="0")
    if lacks is None:
        assert plan.error is None
    else:
        assert plan.error is not None
        assert plan.error.message == f"Model Runner V1 does not support: {lacks}"


def test_stages_on_the_v1_runner_are_not_scheduled_ahead() -> None:
    settings = planned(LLAMA, "-pp", "2", VLLM_USE_V2_MODEL_RUNNER="0").settings
    assert settings is not None
    assert not settings.async_scheduling
    error = refused(LLAMA, "-pp", "2", "--async-scheduling", VLLM_USE_V2_MODEL_RUNNER="0")
    assert error.message == "Async scheduling is not supported by the V1 model runner with pipeline parallelism."
