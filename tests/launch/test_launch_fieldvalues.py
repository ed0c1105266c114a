"""Values of the fields of config objects, as pydantic judges them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.engine.speculation.wanted import KEYS
from kvplan.launch import fieldvalues
from kvplan.launch.options import fields_of
from kvplan.releases import KNOWN, Release
from tests import asking

TABLE = Path(fieldvalues.__file__).parent / "data" / "config_values.json"


@pytest.mark.parametrize(
    ("option", "field", "value", "release", "sentences"),
    [
        ("attention_config", "flash_attn_version", 4, "0.16.0", ("Input should be 2 or 3",)),
        ("attention_config", "flash_attn_version", 4, "0.33.0", ()),
        ("attention_config", "flash_attn_version", None, "0.33.0", ()),
        ("attention_config", "use_non_causal", "maybe", "0.33.0", ("Input should be a valid boolean",)),
        ("attention_config", "use_non_causal", "off", "0.33.0", ()),
        ("attention_config", "mla_prefill_backend", "flashinfer", "0.33.0", ()),
        (
            "attention_config",
            "tokenspeed_mla_min_split_kv",
            257,
            "0.33.0",
            ("Input should be less than or equal to 256",),
        ),
        ("structured_outputs_config", "backend", "xgrammar", "0.33.0", ()),
        ("kv_transfer_config", "kv_port", "14579", "0.33.0", ()),
        ("kv_transfer_config", "kv_port", 1.5, "0.33.0", ("Input should be a valid integer",)),
        ("kv_transfer_config", "kv_connector_extra_config", [], "0.33.0", ("Input should be a valid dictionary",)),
        ("kv_transfer_config", "kv_connector", 7, "0.33.0", ("Input should be a valid string",)),
        ("eplb_config", "num_redundant_experts", -1, "0.33.0", ("Input should be greater than or equal to 0",)),
    ],
)
def test_values(option: str, field: str, value: object, release: str, sentences: tuple[str, ...]) -> None:
    assert fieldvalues.objections(option, field, value, Release(release, release)) == sentences


def test_each_type_that_a_field_may_have_objects_by_itself() -> None:
    told = fieldvalues.objections("weight_transfer_config", "backend", 1, Release("0.33.0", "0.33.0"))
    assert len(told) == 2


def test_the_table_knows_no_field_that_never_was() -> None:
    table = json.loads(TABLE.read_text("utf-8"))
    assert table.pop("speculative_config").keys() <= KEYS.keys()
    for option, fields in table.items():
        ever = {name for release in KNOWN for name in fields_of(option, Release(release, release)) or ()}
        assert fields.keys() <= ever, option


def test_the_parser_refuses_them() -> None:
    (refusal,) = asking.launched("vllm serve m --structured-outputs-config.backend nope").refusals
    assert "1 validation error for StructuredOutputsConfig" in refusal.message
