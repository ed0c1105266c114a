"""A project's settings: `.kvplan.toml`, `kvplan.toml`, or `[tool.kvplan]` of `pyproject.toml`.

`finding` finds the file, `reading` makes `values.Settings` of it. What it may hold is `shape`, which is also published
as a JSON Schema (`python -m tests.regenerate schemas` writes it). Only `reading` needs pydantic, so that who has no
settings file does not wait for it.
"""
