"""`python -m kvplan.runs.settings` writes the JSON Schema of the settings file."""

from kvplan.runs.settings.schema import SCHEMA_FILE, text

if __name__ == "__main__":
    SCHEMA_FILE.write_text(text(), encoding="utf-8")
