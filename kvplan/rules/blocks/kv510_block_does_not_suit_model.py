"""KV510: a block size with which the model's own cache modules cannot lay out their pages."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.failures import BlockSizeRefused, EmptyPage, StateExceedsPage
from kvplan.engine.values import Plan
from kvplan.rules import words
from kvplan.rules.failures import indices, said
from kvplan.rules.rule import Example, Rule
from kvplan.rules.values import Finding, Severity

CODE = "KV510"
FLAG = "--block-size"


def check(plan: Plan) -> Iterator[Finding]:
    """One finding for each failing check."""
    for error, empty in plan.failures(EmptyPage):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=(
                f"{words.release_name(plan)} divides by a page of 0 bytes: one compressed state stands for more tokens "
                f"than a block of {empty.block_size} has ({error.type})"
            ),
            layers=indices(plan, empty),
            options=(FLAG,),
            fix=f"drop {FLAG}, or give a multiple of the tokens that one state stands for (128, 256)",
        )
    for error, refused in plan.failures(BlockSizeRefused):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{words.release_name(plan)} refuses the block size ({said(error)})",
            layers=indices(plan, refused),
            options=(FLAG,),
            fix=f"drop {FLAG}, or give a larger one",
        )
    for error, exceeding in plan.failures(StateExceedsPage):
        yield Finding(
            rule=CODE,
            severity=Severity.ERROR,
            message=f"{words.release_name(plan)} cannot share pages between states and latent rows ({said(error)})",
            layers=indices(plan, exceeding),
            options=("--tensor-parallel-size", "--kv-cache-dtype"),
            fix="raise --tensor-parallel-size, or use a wider --kv-cache-dtype",
        )


RULE = Rule(
    code=CODE,
    name="block-does-not-suit-model",
    severity=Severity.ERROR,
    summary="The block size does not suit the caches that the model's own code lays out.",
    explanation=(
        "Some models bring cache modules of their own: DeepSeek-V4 keeps one compressed state for 4 and for 128 "
        "tokens, Step 5 one summary for a region, others a ring that has to fit one page. A block must hold whole "
        "states; with fewer tokens than one state stands for, its page has no bytes and vLLM's grouping divides by "
        "zero. GLM-5.3 puts its states into latent pages, which must be large enough.\n\n"
        "Leave `--block-size` to vLLM for such models."
    ),
    bad=Example(
        version="0.33.0",
        command="vllm serve deepseek-ai/DeepSeek-V4-Flash -tp 8 --kv-cache-dtype fp8 --block-size 16",
    ),
    good=Example(
        version="0.33.0",
        command="vllm serve deepseek-ai/DeepSeek-V4-Flash -tp 8 --kv-cache-dtype fp8 --block-size 128",
    ),
    claims=(EmptyPage, BlockSizeRefused, StateExceedsPage),
    check=check,
)
