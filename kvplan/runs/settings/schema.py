"""The JSON Schema of the settings file, for editors: `kvplan-settings-1.schema.json` beside this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from kvplan.runs.settings.shape import SettingsFile

SCHEMA_FILE = Path(__file__).with_name("kvplan-settings-1.schema.json")


class _OfToml(GenerateJsonSchema):
    """A schema without null, which TOML does not have: a key that says nothing is left out."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def build() -> dict[str, Any]:
    """The JSON Schema. Unlike those of reports it bans keys that it does not know: they would have no effect."""
    schema = _untitled(SettingsFile.model_json_schema(by_alias=True, schema_generator=_OfToml))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_FILE.name, **schema}


def text() -> str:
    """The JSON Schema as the file holds it."""
    return json.dumps(build(), indent=2) + "\n"


def _untitled(node: Any) -> Any:
    """The schema without titles made of field names."""
    if isinstance(node, dict):
        return {key: _untitled(value) for key, value in node.items() if not (key == "title" and isinstance(value, str))}
    return [_untitled(item) for item in node] if isinstance(node, list) else node
