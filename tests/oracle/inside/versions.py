"""What releases call differently or have in another place."""

from __future__ import annotations

from typing import Any


def attention_layer_classes() -> Any:
    """The class, or classes, whose instances have a cache."""
    try:
        from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
    # until 0.10.1
    except ImportError:
        from vllm.attention import Attention
    else:
        return AttentionLayerBase
    try:
        from vllm.model_executor.layers.mamba.abstract import MambaBase
    except ImportError:
        return Attention
    return Attention, MambaBase


def v2_by_config(config: Any) -> bool:
    """Whether the release's config chooses the V2 model runner; releases that have no such setting take V1."""
    try:
        return bool(config.use_v2_model_runner)
    except AttributeError:
        return False


def v2_by_config_or_environment(config: Any) -> bool:
    """The same, with the environment variable that chose it before there was a setting."""
    try:
        return bool(config.use_v2_model_runner)
    except AttributeError:
        from vllm import envs

        return bool(getattr(envs, "VLLM_USE_V2_MODEL_RUNNER", False))


def runner_dtype(cache_dtype: str, model_dtype: Any) -> Any:
    """The V1 runner's own `kv_cache_dtype` until 0.11.0."""
    try:
        from vllm.utils.torch_utils import STR_DTYPE_TO_TORCH_DTYPE
    except ImportError:
        try:
            from vllm.utils import STR_DTYPE_TO_TORCH_DTYPE
        except ImportError:
            return None
    return model_dtype if cache_dtype == "auto" else STR_DTYPE_TO_TORCH_DTYPE.get(cache_dtype)


def argument_parser() -> Any:
    """vLLM's parser, empty."""
    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:
        from vllm.utils import FlexibleArgumentParser
    return FlexibleArgumentParser()


def initialize_model() -> Any:
    """The function that makes a model of a config."""
    try:
        from vllm.model_executor.model_loader.utils import initialize_model
    # until 0.8
    except ImportError:
        from vllm.model_executor.model_loader.loader import _initialize_model

        def initialize(*, vllm_config: Any, model_config: Any, **more: Any) -> Any:
            return _initialize_model(vllm_config, **more)

        return initialize
    return initialize_model


def set_default_torch_dtype() -> Any:
    """The context that sets torch's default dtype."""
    try:
        from vllm.utils.torch_utils import set_default_torch_dtype
    except ImportError:
        from vllm.model_executor.model_loader.utils import set_default_torch_dtype
    return set_default_torch_dtype


def layers_from_config() -> Any:
    """The function that finds layers by name, or None where the release has none."""
    try:
        from vllm.config.vllm import get_layers_from_vllm_config
    except ImportError:
        try:
            from vllm.config import get_layers_from_vllm_config
        except ImportError:
            return None
    return get_layers_from_vllm_config
