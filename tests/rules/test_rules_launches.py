"""What the rules say about known launches: numbers in the messages, and fixes that work."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.rules import Finding, Severity, run

GLM = "vllm serve GLM-5.2-FP8 -tp 8"
SKIP = "--kv-cache-dtype-skip-layers 0 1"


def _one(plan: Any, code: str) -> Finding:
    (finding,) = run(plan, select=[code])
    return finding


def _codes(plan: Any) -> set[str]:
    return {finding.rule for finding in run(plan)}


def test_skip_list_without_dtype(launched: Any) -> None:
    finding = _one(launched(f"{GLM} {SKIP}", available=None), "KV203")
    assert finding.severity is Severity.WARNING
    assert finding.message == (
        "the skip list 0 1 has no effect: --kv-cache-dtype auto resolves to bfloat16, the model's own dtype, so no "
        "layer is quantised"
    )
    assert finding.changes[0].values == (("kv_cache_dtype", "fp8"),)


def test_0_24_ignores_the_list(launched: Any) -> None:
    plan = launched(f"{GLM} --kv-cache-dtype fp8 {SKIP}", "0.24.0")
    finding = _one(plan, "KV202")
    assert finding.message == "vLLM 0.24.0 ignores the skip list for MLA layers: layers 0-1 stay fp8_ds_mla"
    assert finding.layers == (0, 1)
    assert finding.changes[0].release == "0.26.0"
    assert "KV502" not in _codes(plan)


def test_0_25_ignores_the_list_raises_the_block_and_crashes(launched: Any) -> None:
    plan = launched(f"{GLM} --kv-cache-dtype fp8 {SKIP}", "0.25.1")
    assert {"KV201", "KV202", "KV502"} <= _codes(plan)
    raised = _one(plan, "KV502")
    assert raised.severity is Severity.WARNING
    assert raised.message == ("the skip list raises the block size from 64 to 128 tokens, although it skips no layer")
    crash = _one(plan, "KV201")
    assert crash.layers == tuple(range(78))
    assert "656 bytes a token are allocated and 576 are viewed" in crash.message


def test_0_25_crash_in_vllms_numbers(launched: Any) -> None:
    crash = _one(launched(f"{GLM} --kv-cache-dtype fp8", "0.25.1"), "KV201")
    assert "shape '[18662, 64, 576]' is invalid for input of size 783505408" in crash.message
    assert crash.references[0] == "vllm#48379"


@pytest.mark.parametrize("version", ["0.26.0", "0.33.0"])
def test_since_0_26_the_list_works(version: str, launched: Any) -> None:
    plan = launched(f"{GLM} --kv-cache-dtype fp8 {SKIP}", version)
    assert all(finding.severity is Severity.NOTE for finding in run(plan))
    assert _one(plan, "KV502").message == "the skip list raises the block size from 64 to 128 tokens"
    assert _one(plan, "KV204").message == (
        "the skip list does not reach the indexer caches: all 21 keep their 8-bit rows of 132 bytes a token"
    )


def test_auto_on_b200(launched: Any) -> None:
    finding = _one(launched(GLM, "0.33.0", "b200"), "KV207")
    assert finding.message.startswith("no cache dtype is asked for and the cache becomes fp8_e4m3: ")
    mended = launched(f"{GLM} --kv-cache-dtype bfloat16", "0.33.0", "b200")
    assert finding.changes[0].values == (("kv_cache_dtype", "bfloat16"),)
    assert not {layer.cache_dtype for layer in mended.layers} & {"fp8_e4m3", "fp8", "fp8_ds_mla"}


def test_no_backend_names_the_dtypes_that_have_one(launched: Any) -> None:
    finding = _one(launched(f"{GLM} --kv-cache-dtype fp8_e4m3", "0.30.0"), "KV301")
    assert finding.message == (
        "vLLM 0.30.0 has no attention backend on h200 (compute capability 9.0) that takes cache dtype fp8_e4m3 for "
        "this model; closest is FLASHMLA_SPARSE: kv_cache_dtype not supported"
    )
    assert finding.fix == "--kv-cache-dtype auto, bfloat16, fp8 or fp8_ds_mla"
    for dtype in ("auto", "bfloat16", "fp8", "fp8_ds_mla"):
        assert "KV301" not in _codes(launched(f"{GLM} --kv-cache-dtype {dtype}", "0.30.0"))


def test_no_backend_for_the_attention_itself(launched: Any) -> None:
    finding = _one(launched("vllm serve GLM-5.2-FP8 -tp 8", "0.33.0", "l40s"), "KV301")
    assert "that can serve this model's sparse MLA" in finding.message
    assert finding.options == ("--gpu",)


def test_no_backend_for_the_block_size(launched: Any) -> None:
    finding = _one(launched("vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8 --block-size 32", "0.24.0"), "KV301")
    assert "takes block size 32" in finding.message
    assert finding.fix == "drop --block-size: the backend then chooses its own"


def test_bare_assertion_in_words(launched: Any) -> None:
    plan = launched(f"vllm serve openai/gpt-oss-120b --kv-cache-dtype fp8 {SKIP}")
    finding = _one(plan, "KV503")
    assert finding.message == (
        "vLLM 0.33.0 stops with a bare AssertionError because of the skipped full-attention layer 1: it needs pages "
        "of 65,536 bytes, and the skip list fixed those of sliding-window layers at 32,768"
    )
    assert finding.fix == "skip sliding-window layers only: --kv-cache-dtype-skip-layers 0"
    assert launched("vllm serve openai/gpt-oss-120b --kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0").ok


@pytest.mark.parametrize(("version", "fits"), [("0.16.0", 32768), ("0.25.1", 32768), ("0.33.0", 32752)])
def test_longest_request(version: str, fits: int, launched: Any) -> None:
    llama = "vllm serve meta-llama/Llama-3.1-8B"
    finding = _one(launched(llama, version, available="4GiB"), "KV602")
    assert finding.message == (
        "one request of 131,072 tokens needs 16.00 GiB, and 4.00 GiB is available; the longest that fits has "
        f"{fits:,} tokens"
    )
    assert (finding.fix or "").startswith(f"--max-model-len {fits}, or raise --gpu-memory-utilization")
    assert launched(f"{llama} --max-model-len {fits}", version, available="4GiB").ok
    assert not launched(f"{llama} --max-model-len {fits + 16}", version, available="4GiB").ok


def test_no_common_block_size_and_its_fix(launched: Any) -> None:
    lite = f"vllm serve DeepSeek-V2-Lite -tp 2 --kv-cache-dtype fp8 {SKIP}"
    finding = _one(launched(lite, "0.27.1"), "KV506")
    assert finding.message.startswith("block size 32 has no part that FLASH_ATTN_MLA and FLASHMLA can all read")
    assert (finding.fix or "").startswith("--block-size 64")
    assert launched(f"{lite} --block-size 64", "0.27.1").ok
    assert launched(lite, "0.31.0").ok


def test_heads_and_their_divisors(launched: Any) -> None:
    finding = _one(launched("vllm serve meta-llama/Llama-3.1-8B -tp 3", gpu="h200:8"), "KV401")
    assert finding.message == "the model has 32 attention heads, which --tensor-parallel-size 3 does not divide"
    assert finding.fix == "--tensor-parallel-size 1, 2, 4 or 8"


def test_kv_heads_that_no_model_class_splits(launched: Any) -> None:
    finding = _one(launched("vllm serve microsoft/phi-4 -tp 8"), "KV401")
    assert finding.message == "the model has 10 KV heads, which --tensor-parallel-size 8 does not divide"


def test_replicated_kv_heads(launched: Any) -> None:
    finding = _one(launched("vllm serve Qwen/Qwen3-30B-A3B -tp 8"), "KV402")
    assert finding.message == ("layers 0-47: 4 KV heads for 8 tensor-parallel ranks, so each head is stored 2 times")
    assert "KV402" not in _codes(launched("vllm serve Qwen/Qwen3-30B-A3B -tp 4"))


def test_padding_layers(launched: Any) -> None:
    finding = _one(launched("vllm serve google/gemma-3-27b-it"), "KV504")
    assert finding.message == (
        "7 groups of up to 10 layers share the pool: 8 slots of 70 stay empty (11.4% of the pool)"
    )


def test_hybrid_manager_off(launched: Any) -> None:
    command = "vllm serve google/gemma-3-27b-it --disable-hybrid-kv-cache-manager"
    plan = launched(command)
    cost = _one(plan, "KV505")
    assert cost.message == (
        "--disable-hybrid-kv-cache-manager is given: 52 of 62 layers need only a window of 1,024 tokens and keep all "
        "131,072"
    )
    assert "drop --disable-hybrid-kv-cache-manager" in (_one(plan, "KV602").fix or "")


def test_values_and_options_by_release(launched: Any) -> None:
    llama = "vllm serve meta-llama/Llama-3.1-8B"
    later = _one(launched(f"{llama} --kv-cache-dtype int8_per_token_head", "0.19.1"), "KV101")
    assert later.message == (
        "vLLM 0.19.1 does not know --kv-cache-dtype int8_per_token_head: releases 0.20.2 and later have it"
    )
    for version in ("0.32.0", "0.33.0"):
        never = _one(launched(f"{llama} --kv-cache-dtype fp8_e4m4", version), "KV101")
        assert never.message == (f"vLLM {version} does not know --kv-cache-dtype fp8_e4m4: no known release has it")
        assert never.fix == "--kv-cache-dtype fp8_e4m3"
    gone = _one(launched(f"{llama} --swap-space 4", "0.33.0"), "KV102")
    assert gone.message == "vLLM 0.33.0 has no option --swap-space: releases 0.16.0 to 0.17.1 have it"
    typo = _one(launched(f"{llama} --kv-cache-dtyp-e fp8"), "KV102")
    assert typo.fix == "did you mean --kv-cache-dtype?"


def test_refused_values_that_are_listed(launched: Any) -> None:
    llama = "vllm serve meta-llama/Llama-3.1-8B"
    finding = _one(launched(f"{llama} --max-num-batched-tokens 16 --max-num-seqs 256"), "KV101")
    assert "max_num_batched_tokens (16) must be greater than or equal to max_num_seqs (256)" in finding.message
    assert finding.options == ("--max-num-batched-tokens",)
    for command in (f"{llama} --block-size x", f"{llama} --max-model-len"):
        plan = launched(command)
        assert {finding.rule for finding in run(plan) if finding.severity is Severity.ERROR} <= {"KV101", "KV108"}
        assert not plan.ok


def test_checkpoint_scheme_over_the_flag(launched: Any) -> None:
    laguna = "vllm serve poolside/Laguna-XS.2-FP8 --kv-cache-dtype bfloat16"
    finding = _one(launched(laguna, "0.21.0"), "KV206")
    assert finding.message == (
        "--kv-cache-dtype bfloat16 is not used: vLLM 0.21.0 takes fp8 from the checkpoint's kv_cache_scheme for "
        "layers 0-39"
    )
    assert finding.changes[0].release == "0.22.1"


def test_block_size_overruled(launched: Any) -> None:
    finding = _one(launched(f"{GLM} --block-size 128", "0.16.0", "b200"), "KV502")
    assert finding.severity is Severity.WARNING
    assert finding.message.startswith("--block-size 128 is not used: the block size is 64 (")


def test_plain_launch_is_quiet(launched: Any) -> None:
    found = run(launched("vllm serve meta-llama/Llama-3.1-8B"))
    assert {finding.rule for finding in found} <= {"KV901"}


@pytest.mark.parametrize(
    ("version", "said", "fix"),
    [
        ("0.33.0", "LMCacheConnectorV1 does not work with the hybrid KV cache manager in vLLM 0.33.0", "NixlConnector"),
        ("0.18.1", "vLLM 0.18.1 switches the hybrid KV cache manager off for every KV connector", "later release"),
    ],
)
def test_what_switches_the_hybrid_manager_off(launched: Any, version: str, said: str, fix: str) -> None:
    transfer = '\'{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}\''
    command = f"vllm serve google/gemma-3-27b-it --max-model-len 8192 --kv-transfer-config {transfer}"
    finding = _one(launched(command, version), "KV505")
    assert finding.message.startswith(said)
    assert fix in (finding.fix or "")
