"""What one request takes on a GPU, by kind of layer, beside the figure that textbooks give."""

from __future__ import annotations

from kvplan.engine.values import Capacity, KindShare, Plan
from kvplan.report.page import GAP, Page
from kvplan.report.textbook import textbook
from kvplan.report.words import size
from kvplan.words import number

_WORDS = {
    "FullAttentionSpec": "full attention",
    "SlidingWindowSpec": "sliding window",
    "MLAAttentionSpec": "latent (MLA)",
    "SlidingWindowMLASpec": "sliding window, latent",
    "ChunkedLocalAttentionSpec": "chunked attention",
    "CrossAttentionSpec": "cross attention",
    "MambaSpec": "states",
}


def fit(page: Page, plan: Plan, capacity: Capacity) -> None:
    """One request: what each kind of layer takes, the textbook's figure, and how many requests fit at once."""
    if not capacity.kinds:
        return
    length = number(capacity.max_model_len)
    page.heading("One request", "per GPU, as vLLM reserves for it")
    rows = [
        [_kind(kind), str(kind.layers), number(kind.request_bytes), number(kind.fixed_bytes), _rate(kind)]
        for kind in capacity.kinds
    ]
    taken = sum(kind.request_bytes for kind in capacity.kinds) + capacity.unused_bytes
    if capacity.unused_bytes > 0:
        rows.append(["unused", "", number(capacity.unused_bytes), "", ""])
    if capacity.fixed_bytes is not None and capacity.bytes_per_token is not None:
        layers = str(sum(kind.layers for kind in capacity.kinds))
        rate = number(round(capacity.bytes_per_token, 2))
        rows.append(["all", layers, number(taken), number(capacity.fixed_bytes), rate])
    headings = ("kind", "layers", f"B at {length} tokens", "fixed B", "B/token")
    columns = page.fitting(dict(zip(headings, zip(*rows, strict=True), strict=True)), ("layers", "fixed B"))
    page.table(tuple(columns), zip(*columns.values(), strict=True), right=headings[1:])
    pairs = []
    book = textbook(plan)
    if book is not None:
        at = size(round(book.bytes_per_token * capacity.max_model_len))
        told = f"{number(book.bytes_per_token, 2)} B/token = {book.formula}, every layer keeping every token"
        pairs.append(("textbook", f"{told}; {at} at {length}"))
    at_once = [
        f"{fitting.concurrency:.2f}x {number(fitting.tokens)} tokens"
        for fitting in capacity.lengths
        if fitting.concurrency is not None
    ]
    if at_once:
        pairs.append(("fit at once", "; ".join(at_once)))
    if capacity.unused_bytes > 0:
        pairs.append(("unused", "blocks are as wide as the widest group of layers needs"))
    page.gap()
    page.pairs(pairs, indent=GAP)


def _kind(kind: KindShare) -> str:
    told = "indexer" if kind.indexer else _WORDS.get(kind.spec, kind.spec)
    return told if kind.sliding_window is None else f"{told} {number(kind.sliding_window)}"


def _rate(kind: KindShare) -> str:
    return number(round(kind.bytes_per_token, 2))
