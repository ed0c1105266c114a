"""Each reader on a small written package, and what it says of sources that have changed their shape."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from tests.upstream import readers, reading
from tests.upstream.facts import ABSENT, UNREAD, Difference, agree, differences
from tests.upstream.sources import Moved, Sources
from tests.upstream.subjects import SUBJECTS, attention_backends, backend_abilities, messages, options
from tests.upstream.written import written

BY_NAME = {subject.name: subject for subject in SUBJECTS}

ARG_UTILS = """
import argparse, json
from vllm.config.model import ModelConfig
from vllm.config.cache import CacheConfig

def get_kwargs(cls):
    human = {"kv_cache_memory_bytes"}
    if name == "max_model_len":
        kind = human_readable_int_or_auto
    elif name in human:
        kind = human_readable_int
    choices.append("None")

class EngineArgs:
    @staticmethod
    def add_cli_args(parser):
        model_kwargs = get_kwargs(ModelConfig)
        group = parser.add_argument_group(title="ModelConfig")
        group.add_argument("--max-model-len", **model_kwargs["max_model_len"])
        group.add_argument("--quick", "-q", **model_kwargs["quick"])
        model_kwargs["kind"]["type"] = lambda s: s.lower().replace("-", "_")
        group.add_argument("--kind", **model_kwargs["kind"])
        cache_kwargs = get_kwargs(CacheConfig)
        group.add_argument("--cache-config", **cache_kwargs["nested"])
        group.add_argument("--kv-cache-memory-bytes", **cache_kwargs["kv_cache_memory_bytes"])
        group.add_argument("--layers", **{**cache_kwargs["layers"], "default": None})
        group.add_argument("--computed", **cache_kwargs["computed"])
        for number in range(60):
            group.add_argument(f"--filler-{number}", type=optional_type(json.loads))
        return parser

class AsyncEngineArgs(EngineArgs):
    @staticmethod
    def add_cli_args(parser):
        return EngineArgs.add_cli_args(parser)

def create(self):
    CacheConfig(bytes=self.kv_cache_memory_bytes)
"""

PACKAGE = {
    "engine/arg_utils.py": ARG_UTILS,
    "entrypoints/openai/cli_args.py": """
        import argparse
        from vllm.config.utils import config
        from vllm.engine.arg_utils import AsyncEngineArgs

        @config
        class FrontendArgs:
            port: int = 8000

            @classmethod
            def add_cli_args(cls, parser):
                from vllm.engine.arg_utils import get_kwargs
                for key, value in get_kwargs(cls).items():
                    parser.add_argument(f"--{key.replace('_', '-')}", **value)
                return parser

        def make_arg_parser(parser):
            parser.add_argument("model_tag", type=str, nargs="?", help="…")
            parser.add_argument("--headless", action="store_true", default=False)
            parser = FrontendArgs.add_cli_args(parser)
            return AsyncEngineArgs.add_cli_args(parser)
        """,
    "config/model.py": """
        from typing import Annotated, Any, Literal
        from pydantic import Field
        if TYPE_CHECKING:
            Kinds = Literal["hidden"]
        else:
            Kinds = Any

        @config
        class ModelConfig:
            max_model_len: Annotated[int, Field(ge=-1)] = None
            quick: bool | None = None
            kind: Literal["b", "a"] | None = "a"
        """,
    "config/cache.py": """
        from dataclasses import field
        from typing import Literal
        from pydantic import Field
        CacheDType = Literal["auto", "fp8"]

        @config
        class NestedConfig:
            depth: int = 1
            hidden: int = field(init=False)

        @config
        class CacheConfig:
            nested: NestedConfig = Field(default_factory=NestedConfig)
            kv_cache_memory_bytes: int | None = Field(default=None, gt=0)
            layers: list[int] = field(default_factory=lambda: [0])
            computed: str = Field(default_factory=compute)
        """,
    "config/parallel.py": "@config\nclass ParallelConfig:\n    pass\n",
    "config/scheduler.py": "@config\nclass SchedulerConfig:\n    pass\n",
    "config/speculative.py": """
        SpeculativeMethod = Literal["ngram", Literal["mtp"]]

        @config
        class SpeculativeConfig:
            method: SpeculativeMethod | None = None
            target: str = field(init=False)

            @staticmethod
            def _verify_args(self):
                aux_hidden_states_supported = ["llama", "qwen"]

            @staticmethod
            def hf_config_override(hf_config):
                if hf_config.model_type in ("t1", "t2", "t3", "t4") or getattr(hf_config, "inner") == "t6":
                    hf_config.model_type = "t_mtp"
                if "t5" in hf_config.model_type or hf_config.model_type == "t_mtp":
                    return hf_config
        """,
    "model_executor/models/config.py": "MODELS_CONFIG_MAP: dict[str, type] = {'A': Hook}\n",
    "config/vllm.py": """
        DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES = frozenset({"LlamaForCausalLM"})

        class VllmConfig:
            def _get_v2_model_runner_unsupported_features(self):
                unsupported = []
                if self.a:
                    unsupported.append("dual batch overlap")
                unsupported.append(f"logprobs mode '{self.mode}'")
                return unsupported
        """,
    "utils/torch_utils.py": "import torch\nSTR_DTYPE_TO_TORCH_DTYPE = {'fp8': torch.uint8}\n",
    "v1/kv_cache_interface.py": """
        class KVQuantMode(IntEnum):
            NONE = 0
            FP8_PER_TENSOR = 1

        def get_kv_quant_mode(kv_cache_dtype):
            if kv_cache_dtype.startswith("fp8"):
                return KVQuantMode["FP8_PER_TENSOR"]
            return KVQuantMode.NONE
        """,
    "envs.py": "environment_variables = {'VLLM_PORT': lambda: 1, 'HOME': lambda: 2}\n",
    "v1/attention/backends/registry.py": """
        class AttentionBackendEnum(Enum):
            FLASH_ATTN = "vllm.v1.attention.backends.flash.FlashBackend"
            TORCH_SDPA = ""
        """,
    "v1/attention/backends/flash.py": """
        class Impl:
            can_return_lse_for_decode: bool = True

        class AttentionBackend:
            supported_dtypes: ClassVar[list] = [torch.float16, torch.bfloat16]

            @classmethod
            def supports_head_size(cls, head_size):
                return head_size in cls.get_supported_head_sizes()

            @classmethod
            def supports_sink(cls):
                return False

        class FlashBackend(AttentionBackend):
            supported_kv_cache_dtypes = ["auto", "fp8"]

            @staticmethod
            def get_impl_cls():
                return Impl

            @classmethod
            def get_supported_head_sizes(cls):
                return [128, 64]

            @classmethod
            def supports_kv_cache_dtype(cls, kv_cache_dtype):
                return kv_cache_dtype != "fp8" or current_platform.is_cuda()

            @classmethod
            def supports_dcp(cls):
                return True

            @classmethod
            def supports_pcp(cls):
                return current_platform.has_pcp()
        """,
    "platforms/cuda.py": """
        from vllm.v1.attention.backends.registry import AttentionBackendEnum

        def _get_backend_priorities(use_mla, device_capability, num_heads=None):
            if use_mla and num_heads is not None and num_heads <= 16:
                return [AttentionBackendEnum.TORCH_SDPA]
            return [AttentionBackendEnum.FLASH_ATTN, *([AttentionBackendEnum.TORCH_SDPA] if device_capability.major == 9
                    else [])]
        """,
    "platforms/rocm.py": """
        from vllm.v1.attention.backends.registry import AttentionBackendEnum

        def _get_backend_priorities(use_mla, use_sparse):
            backends = []
            if rocm_aiter_ops.is_mha_enabled():
                backends.append(AttentionBackendEnum.FLASH_ATTN)
            return backends
        """,
    "model_executor/layers/quantization/__init__.py": """
        QuantizationMethods = Literal["fp8", "old"]
        DEPRECATED_QUANTIZATION_METHODS = ["old"]

        def get_quantization_config(quantization):
            from .fp8 import Fp8Config, OldConfig
            return {"fp8": Fp8Config, "old": OldConfig}[quantization]
        """,
    "model_executor/layers/quantization/fp8.py": """
        class Fp8Config:
            @classmethod
            def get_min_capability(cls):
                return 75

            @classmethod
            def get_supported_act_dtypes(cls):
                return [torch.bfloat16, torch.half]

            @staticmethod
            def get_config_filenames():
                return ["b.json", "a.json"]

        class OldConfig(Fp8Config):
            @classmethod
            def get_min_capability(cls):
                return probe()
        """,
    "model_executor/layers/quantization/modelopt.py": "QUANT_ALGOS = [*('FP8',), 'NVFP4']\n",
    "model_executor/models/registry.py": """
        _TEXT = {"LlamaForCausalLM": ("llama", "LlamaForCausalLM"), "Lost": ("vllm.models.lost", "Lost")}
        _SPECULATIVE_DECODING_MODELS = {"LlamaDraft": ("llama", "LlamaForCausalLM")}
        _VLLM_MODELS = {**_TEXT, **_SPECULATIVE_DECODING_MODELS}
        _PREVIOUSLY_SUPPORTED_MODELS = {"MotifForCausalLM": "0.10.2"}
        """,
    "model_executor/models/llama.py": """
        from .interfaces import SupportsPP, SupportsEagle3

        class LlamaForCausalLM(SupportsPP, SupportsEagle3):
            def __init__(self, *, vllm_config, prefix=""): ...
            def forward(self, input_ids, positions, intermediate_tensors=None): ...
            def embed_input_ids(self, input_ids): ...
            def compute_logits(self, states): ...
        """,
    "model_executor/models/interfaces.py": """
        class SupportsPP(Protocol):
            supports_pp: ClassVar[Literal[True]] = True

        class SupportsEagle3(Protocol):
            supports_eagle3: ClassVar[Literal[True]] = True
        """,
    "transformers_utils/config.py": "_CONFIG_REGISTRY = LazyConfigDict(flint='FlintConfig', **{'un-named': 'X'})\n",
    "transformers_utils/model_arch_config_convertor.py": """
        class Base:
            def is_deepseek_mla(self):
                if self.hf_text_config.model_type in ("a", "b", "c", "d", "e"):
                    return True
                elif self.hf_text_config.model_type == "eagle":
                    return False

            def is_mm_prefix_lm(self):
                MM_PREFIX_LM_MODELS = ("gemma3",)
                return self.hf_config.model_type in MM_PREFIX_LM_MODELS
        """,
    "distributed/kv_transfer/kv_connector/factory.py": """
        KVConnectorFactory.register_connector("One", "vllm.distributed.one", "One")
        KVConnectorFactory.register_connector("Two", "vllm.distributed.one", "Two")
        """,
    "distributed/one.py": """
        class One(Base, SupportsHMA):
            @classmethod
            def get_required_kvcache_layout(cls, config):
                if config.use_mla:
                    return None
                return "HND"

        class SupportsHMA:
            pass

        class TwoUpstream:
            pass

        Two = resolve()
        """,
    "refusing.py": """
        def refuse(name):
            raise ValueError(f"Unsupported connector "
                             f"type: {name}")
        """,
}

EXPECTED: dict[str, Any] = {
    "architectures": {
        "LlamaForCausalLM": ["llama", "LlamaForCausalLM", "gP"],
        "Lost": ["models.lost", "Lost", UNREAD],
        "LlamaDraft": ["llama", "LlamaForCausalLM", "gP"],
    },
    "retired_architectures": {"MotifForCausalLM": "0.10.2"},
    "plugin_architectures": {},
    "eagle3_targets": {"LlamaForCausalLM": True},
    "mla_types": dict.fromkeys(("a", "b", "c", "d", "e", "eagle"), True),
    "mm_prefix_types": {"gemma3": True},
    "config_classes": {"flint": True, "un-named": True},
    "attention_backends": {"FLASH_ATTN": True, "TORCH_SDPA": True},
    "auxiliary_types": {"llama": True, "qwen": True},
    "backend_abilities": {
        "FLASH_ATTN": {
            **dict.fromkeys(map(str, backend_abilities.FEATURES), UNREAD),
            "dtypes": ["bfloat16", "float16"],
            "cache_dtypes": UNREAD,
            "head_sizes": [64, 128],
            "sink": False,
            "dcp": True,
        }
    },
    "softmax_sums": {"FLASH_ATTN": True},
    "cache_dtypes": {
        "auto": {"storage": None, "mode": "NONE"},
        "fp8": {"storage": "uint8", "mode": "FP8_PER_TENSOR"},
    },
    "quantisation": {
        "fp8": {
            "capability": 75,
            "dtypes": ["bfloat16", "float16"],
            "files": ["a.json", "b.json"],
            "deprecated": False,
        },
        "old": {
            "capability": UNREAD,
            "dtypes": ["bfloat16", "float16"],
            "files": ["a.json", "b.json"],
            "deprecated": True,
        },
    },
    "modelopt_algorithms": {"FP8": True, "NVFP4": True},
    "config_fields": {"cache_config": ["depth"]},
    "bounds": {"max_model_len": {"least": -1.0}, "kv_cache_memory_bytes": {"above": 0.0}},
    "environment": {"VLLM_PORT": True},
    "speculative_keys": {"method": True},
    "speculative_methods": {"ngram": True, "mtp": True},
    "connectors": {"One": {"hybrid": True, "layout": "LBHNC"}, "Two": {"hybrid": False, "layout": None}},
    "draft_types": dict.fromkeys(("t1", "t2", "t3", "t4", "t5"), True),
    "config_hooks": {"A": "Hook"},
    "v2_architectures": {"LlamaForCausalLM": True},
    "runner_lacks": {"dual batch overlap": True, "logprobs mode": True},
}


@pytest.fixture
def package(tmp_path: Path) -> Sources:
    """The small package."""
    return written(tmp_path, PACKAGE)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_what_is_read(package: Sources, name: str) -> None:
    assert json.loads(json.dumps(BY_NAME[name].read(package))) == EXPECTED[name]


def test_options_are_followed_to_the_parser(package: Sources) -> None:
    found = options.read(package)
    named = {name: option for name, option in found.items() if not name.startswith("filler")}
    assert named == {
        "model_tag": {"flags": [], "kind": "str", "nargs": "?"},
        "headless": {"flags": ["--headless"], "kind": "true", "default": False},
        "port": {"flags": ["--port"], "kind": "int", "default": 8000},
        "max_model_len": {"flags": ["--max-model-len"], "kind": "human_int_or_auto"},
        "quick": {"flags": ["--quick", "-q"], "kind": "bool"},
        "kind": {"flags": ["--kind"], "kind": "lower", "choices": ["a", "b", "None"], "default": "a"},
        "cache_config": {"flags": ["--cache-config"], "kind": "dataclass"},
        "kv_cache_memory_bytes": {"flags": ["--kv-cache-memory-bytes"], "kind": "human_int", "optional": True},
        "layers": {"flags": ["--layers"], "kind": "int", "nargs": "+"},
        "computed": {"flags": ["--computed"], "kind": "str", "default": UNREAD},
    }
    assert found["filler_3"] == {"flags": ["--filler-3"], "kind": "json", "optional": True}


def test_the_order_of_backends_is_asked_question_by_question(package: Sources) -> None:
    found = BY_NAME["backend_priorities"].read(package)
    assert found["standard sm9x"] == ["FLASH_ATTN", "TORCH_SDPA"]
    assert found["standard sm8x non_causal"] == ["FLASH_ATTN"]
    assert found["mla sm10x heads=16 fp8 head_size=576"] == ["TORCH_SDPA"]
    assert found["mla sm10x heads=17 fp8 head_size=576"] == ["FLASH_ATTN"]
    rocm = BY_NAME["rocm_priorities"].read(package)
    assert (rocm["standard"], rocm["aiter"]) == ([], ["FLASH_ATTN"])


def test_texts_are_found_across_joints_and_inserted_values(package: Sources) -> None:
    found = messages.read(package)
    assert found["Unsupported connector type: {}"] is True
    assert all(piece in "Unsupported connector type" for piece in messages.pieces("Unsupported connector type: {}"))
    assert len(found) < len(messages.quoted())


MAY_BE_MISSING = frozenset(
    {
        "auxiliary_types",
        "messages",
        "plugin_architectures",
        "rocm_priorities",
        "runner_lacks",
        "v2_architectures",
    }
)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_sources_of_another_shape_are_told_with_what_to_learn(tmp_path: Path, subject: Any) -> None:
    """Every reader of a table names the file, or what it looked for there; some facts may be missing by right."""
    empty = dict.fromkeys(PACKAGE, "")
    sources = written(tmp_path, empty)
    if subject.name in MAY_BE_MISSING:
        assert subject.read(sources) == {}
        return
    with pytest.raises(Moved, match=r"must learn|look for"):
        subject.read(sources)


def test_all_subjects_of_a_package_and_those_that_moved(package: Sources, tmp_path: Path) -> None:
    found, moved = reading.read(package)
    assert (set(found), moved) == (set(BY_NAME), [])
    (tmp_path / "envs.py").write_text("")
    found, moved = reading.read(Sources("0.33.0", tmp_path), "environment")
    assert found == {}
    assert [name for name, _ in moved] == ["environment"]


def test_news_are_rows_for_the_tables() -> None:
    old: dict[str, Any] = {
        "speculative_keys": {"method": True, "gone": True},
        "options": {"kind": {"flags": ["--kind"], "choices": ["a", "b"]}},
        "config_classes": {},
    }
    new: dict[str, Any] = {
        "speculative_keys": {"method": True, "fly": True},
        "options": {"kind": {"flags": ["--kind"], "choices": ["a", "c"]}},
        "config_classes": {"llama": True, "flint": True},
    }
    lines = list(reading.news(old, new, "0.32.0", "0.33.0"))
    assert '  + "fly": Span(since="0.33.0"),' in lines
    assert '  - gone: until="0.32.0"' in lines
    assert "  ~ kind: choices +c -b" in lines
    assert '  + "flint": Span(since="0.33.0"),' in lines
    assert not any("llama" in line for line in lines), "Transformers reads it: kvplan's table needs no row"


def test_every_subject_writes_rows() -> None:
    for name, facts in EXPECTED.items():
        for fact, value in facts.items():
            assert fact in BY_NAME[name].row(fact, value, "0.33.0")


def test_readers_name_file_and_function(package: Sources) -> None:
    written(
        package.folder,
        {
            "core.py": """
                class Core:
                    def size(self):
                        return self.cache_config.bytes + getattr(self, "kv_cache_memory_bytes", 0)
                bytes_of = config.bytes
                """
        },
    )
    names = options.field_names(package, "kv_cache_memory_bytes")
    assert names == {"kv_cache_memory_bytes", "bytes"}
    found = dict(readers.places(package, frozenset(names)))
    assert {"core.py:Core.size", "core.py:(module)", "engine/arg_utils.py:create"} <= found.keys()


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ((1, 2), [1, 2], True),
        (1, True, False),
        ({"a": None}, {}, True),
        ({"default": UNREAD}, {"default": 3}, True),
        ([UNREAD, "x"], ["y", "x"], True),
        ([1], [1, 2], False),
        (UNREAD, ABSENT, False),
        ("a", "b", False),
    ],
)
def test_facts_agree(left: object, right: object, same: bool) -> None:
    assert agree(left, right) is same


def test_differences_name_both_sides() -> None:
    assert list(differences("s", {"a": 1, "b": 2}, {"b": 3, "c": 4})) == [
        Difference("s", "a", 1, ABSENT),
        Difference("s", "b", 2, 3),
        Difference("s", "c", ABSENT, 4),
    ]
    assert str(Difference("s", "a", 1, ABSENT)) == "s: a: 1 against absent"


def test_subjects_tell_apart() -> None:
    assert len(BY_NAME) == len(SUBJECTS)
    assert all(inspect.getdoc(subject.read) for subject in SUBJECTS)
    assert attention_backends.SUBJECT in SUBJECTS
