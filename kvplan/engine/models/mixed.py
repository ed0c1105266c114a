"""Decoders of ordinary attention whose layers differ in window, heads or sinks by a rule of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvplan.engine.models import general, windows
from kvplan.engine.models.arch_config import layer_shapes, nas_groups
from kvplan.engine.models.geometry import Kind, LayerGeometry, Role
from kvplan.engine.models.refusals import Refused
from kvplan.history import models as history

if TYPE_CHECKING:
    from kvplan.engine.models.fields import Fields
    from kvplan.engine.models.general import Construction


BAICHUAN_ROTARY_HIDDEN_SIZE = 4096


MOONDREAM_WIDTH, MOONDREAM_HEADS, MOONDREAM_LAYERS = 2048, 32, 24
"""What vLLM's config class of Moondream 3 assumes where the file is silent."""
RSWA_WINDOW = 128
"""Tokens of the window of Unlimited-OCR where the config does not say."""


def gpt_oss(made: Construction) -> tuple[LayerGeometry, ...]:
    """gpt-oss: every even layer slides, whatever layer_types says; all have sinks."""
    window = windows.config_window(made.text, made.release)
    passed = tuple(None if index % 2 else window for index in range(made.count))
    built = general.uniform(made, passed, sinks=(True,) * made.count)
    return tuple(replace(layer, replicates_kv_heads=False) for layer in built)


def falcon(made: Construction) -> tuple[LayerGeometry, ...]:
    """Falcon: neither its rotary nor its ALiBi layers are given the cache config."""
    return tuple(replace(layer, reads_cache_config=False) for layer in general.layers(made))


def baichuan(made: Construction) -> tuple[LayerGeometry, ...]:
    """Baichuan: the ALiBi models (all but the 7B, which vLLM tells by its hidden size) get no cache config."""
    built = general.layers(made)
    if made.text.optional("hidden_size") == BAICHUAN_ROTARY_HIDDEN_SIZE:
        return built
    return tuple(replace(layer, reads_cache_config=False) for layer in built)


def step1(made: Construction) -> tuple[LayerGeometry, ...]:
    """Step 1: biases by the root of the distance, whatever the backend."""
    return tuple(replace(layer, needs="alibi_sqrt") for layer in general.layers(made))


def rnj1(made: Construction) -> tuple[LayerGeometry, ...]:
    """Rnj-1: chunked layers look back one chunk; all hand their backend how far."""
    window = windows.config_window(made.text, made.release)
    types = made.text.per_layer("layer_types", made.count) or (None,) * made.count
    passed = tuple(window if kind == "chunked_attention" else None for kind in types)
    return tuple(replace(layer, needs="chunk_lookback") for layer in general.uniform(made, passed))


def step3_text(made: Construction) -> tuple[LayerGeometry, ...]:
    """Step 3: one KV head, whatever the config says."""
    return general.uniform(made, (None,) * made.count, kv_heads=1)


def cohere(made: Construction) -> tuple[LayerGeometry, ...]:
    """Command R and its successors; the first of them has no layer_types and so no windows."""
    extra = 1 if made.release.has(history.COHERE_WINDOW_PLUS_ONE) else 0
    return general.uniform(made, windows.by_layer_types(made.text, made.release, made.count, extra))


def granite(made: Construction) -> tuple[LayerGeometry, ...]:
    """Granite: windows and sinks by layer_types, once the release reads them."""
    if not made.release.has(history.GRANITE_LAYER_WINDOWS):
        return general.uniform(made, (None,) * made.count)
    passed = windows.by_layer_types(made.text, made.release, made.count)
    own = made.text.get("attention_sinks")
    sinks = "layer_types" in made.text if own is None else bool(own)
    return general.uniform(made, passed, sinks=(sinks,) * made.count)


def exaone_moe(made: Construction) -> tuple[LayerGeometry, ...]:
    """EXAONE-MoE: a list `sliding_windows` comes before layer_types."""
    if made.release.has(history.EXAONE_MOE_LAYER_WINDOWS) and "sliding_windows" in made.text:
        return general.uniform(made, windows.by_list(made.text, "sliding_windows", made.count))
    return general.layers(made)


def laguna(made: Construction) -> tuple[LayerGeometry, ...]:
    """Laguna: sliding layers may have sinks."""
    passed = windows.by_layer_types(made.text, made.release, made.count)
    enabled = bool(made.text.get("swa_attention_sink_enabled"))
    return general.uniform(made, passed, sinks=tuple(enabled and window is not None for window in passed))


def flint(made: Construction) -> tuple[LayerGeometry, ...]:
    """Flint: windows by layer_types, sinks everywhere; its kernel writes the cache as FlashInfer would."""
    built = general.uniform(made, general.layer_windows(made), sinks=(True,) * made.count)
    return tuple(replace(layer, needs="flashinfer") for layer in built)


def domyn_edge(made: Construction) -> tuple[LayerGeometry, ...]:
    """Domyn Edge: a pair in `window_sizes` for each layer, whose first number plus one is the window.

    Head sizes may differ by layer.
    """
    text, count = made.text, made.count
    sizes = text.per_layer("window_sizes", count)
    if sizes is None:
        raise text.wrong("window_sizes", "is missing; Domyn Edge needs one entry for each layer")
    shapes = layer_shapes(text, made.numbers, count)
    built = []
    for index, shape in enumerate(shapes):
        pair = sizes[index]
        left = pair[0] if isinstance(pair, (list, tuple)) and pair else pair
        if isinstance(left, bool) or not isinstance(left, int):
            raise text.wrong("window_sizes", "must hold pairs of whole numbers")
        built.append(
            LayerGeometry(
                name=made.name(index),
                index=index,
                num_heads=made.numbers.num_heads,
                num_kv_heads=shape.kv_heads,
                head_size=shape.head_size,
                sliding_window=left + 1 if left > 0 else None,
            )
        )
    return tuple(built)


def plamo3(made: Construction) -> tuple[LayerGeometry, ...]:
    """PLaMo 3: the config lists a window for each layer."""
    return general.uniform(made, windows.interleaved(made.text, made.count))


def step3p5(made: Construction) -> tuple[LayerGeometry, ...]:
    """Step 3.5: KV heads by attention groups."""
    kv_heads = made.text.first("num_attention_groups", "num_key_value_heads")
    return general.uniform(made, windows.by_layer_types(made.text, made.release, made.count), kv_heads=kv_heads)


def gpt_bigcode(made: Construction) -> tuple[LayerGeometry, ...]:
    """GPT-BigCode: one KV head with `multi_query`."""
    kv_heads = 1 if made.text.get("multi_query") else made.numbers.num_heads
    return general.uniform(made, (None,) * made.count, kv_heads=kv_heads)


def nemotron_nas(made: Construction) -> tuple[LayerGeometry, ...]:
    """Nemotron-NAS (DeciLM): blocks may lack attention, and group their query heads differently."""
    groups = nas_groups(made.text)
    if len(groups) < made.count:
        raise made.text.wrong("block_configs", f"has {len(groups)} entries for {made.count} layers")
    heads = made.numbers.num_heads
    return tuple(
        LayerGeometry(
            name=made.name(index),
            index=index,
            num_heads=heads,
            num_kv_heads=heads // group,
            head_size=made.numbers.head_size,
        )
        for index, group in enumerate(groups[: made.count])
        if group is not None
    )


def mimo_v2(made: Construction) -> tuple[LayerGeometry, ...]:
    """MiMo-V2: sliding layers have heads of their own, and values are narrower than keys (first padded to them)."""
    text, count = made.text, made.count
    pattern = text.per_layer("hybrid_layer_pattern", count)
    if pattern is None:
        raise text.wrong("hybrid_layer_pattern", "is missing; MiMo-V2 needs one entry for each layer")
    sinks = bool(text.get("add_swa_attention_sink_bias"))
    window = text.first("sliding_window_size", "sliding_window")
    narrow = made.release.has(history.MIMO_V2_STORES_NARROW_VALUES)
    built = []
    for index in range(count):
        sliding = pattern[index] == 1
        lead = "swa_" if sliding else ""
        built.append(
            LayerGeometry(
                name=made.name(index),
                index=index,
                num_heads=text.whole(f"{lead}num_attention_heads"),
                num_kv_heads=text.whole(f"{lead}num_key_value_heads"),
                head_size=text.positive(f"{lead}head_dim"),
                head_size_v=text.optional(f"{lead}v_head_dim") if narrow else None,
                sliding_window=window if sliding else None,
                has_sinks=sinks and sliding,
                brings_value_backend=narrow,
                reads_cache_config=made.release.has(history.MIMO_V2_READS_CACHE_CONFIG),
            )
        )
    return tuple(built)


def moondream3(made: Construction) -> tuple[LayerGeometry, ...]:
    """Moondream 3: names of its own for the dimensions of its decoder."""
    text = made.config.section("text_config") or made.text
    heads = text.first("n_heads", "num_attention_heads") or MOONDREAM_HEADS
    width = text.first("dim", "hidden_size") or MOONDREAM_WIDTH
    return tuple(
        LayerGeometry(
            name=made.name(index),
            index=index,
            num_heads=heads,
            num_kv_heads=text.first("n_kv_heads", "num_key_value_heads") or heads,
            head_size=width // heads,
        )
        for index in range(text.first("n_layers", "num_hidden_layers") or MOONDREAM_LAYERS)
    )


def unlimited_ocr(made: Construction) -> tuple[LayerGeometry, ...]:
    """Unlimited-OCR: generated tokens see the whole prompt and a window of what was generated."""
    window = made.config.optional("rswa_window") or RSWA_WINDOW
    return tuple(
        replace(layer, kind=Kind.RSWA, layer_class="RSWAAttention", rswa_window=window)
        for layer in general.uniform(made, (None,) * made.count)
    )


def minimax_m3_indexer(layer: LayerGeometry, sparse: Fields, role: Role) -> LayerGeometry:
    """The keys that the indexer of a sparse MiniMax-M3 layer caches."""
    return LayerGeometry(
        name=f"{layer.name}.index_cache",
        index=layer.index,
        kind=Kind.INDEXER,
        role=role,
        layer_class="MiniMaxM3IndexerCache",
        num_kv_heads=1,
        head_size=sparse.positive("sparse_index_dim"),
        own_backend="MINIMAX_M3_SPARSE_INDEXER",
        stores_model_dtype=True,
    )


def minimax_m3(made: Construction) -> tuple[LayerGeometry, ...]:
    """MiniMax-M3: layers marked sparse add an indexer cache, keys only, registered before their attention."""
    sparse = made.text.section("sparse_attention_config")
    marks = (sparse.items("sparse_attention_freq") if sparse is not None else None) or ()
    built: list[LayerGeometry] = []
    for layer in general.layers(made):
        if sparse is None or layer.index >= len(marks) or not marks[layer.index]:
            built.append(layer)
            continue
        built.append(minimax_m3_indexer(layer, sparse, Role.INDEXER))
        built.append(
            LayerGeometry(
                name=layer.name,
                index=layer.index,
                layer_class="MiniMaxM3SparseAttention",
                num_heads=layer.num_heads,
                num_kv_heads=layer.num_kv_heads,
                head_size=layer.head_size,
                own_backend="MINIMAX_M3_SPARSE",
                reads_skip_list=False,
            )
        )
    return tuple(built)


def qwen(made: Construction) -> tuple[LayerGeometry, ...]:
    """Qwen2 and Qwen3 and what derives from them: layers pass no window, and not all kinds of layer_types will do."""
    types = made.text.items("layer_types") or ()
    limit = made.text.optional("max_window_layers")
    if len(set(map(str, types))) > 1 and limit != made.count:
        raise Refused(
            made.architecture,
            "Sliding window for some but all layers is not supported. This model uses sliding window but "
            f"`max_window_layers` = {limit} is less than `num_hidden_layers` = {made.count}.",
            "AssertionError",
            "layers",
        )
    return general.layers(made)
