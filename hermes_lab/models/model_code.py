"""Refuses models and tokenizers that bring Python code of their own."""

import json
from pathlib import Path

from hermes_lab.errors import ConfigError

_CODE = ("auto_map", "trust_remote_code", "custom_pipelines")
"""Fields of config.json, tokenizer_config.json and the like that make transformers load code."""


def refuse_code(folder: Path) -> None:
    """Raises `ConfigError` if a model's or a tokenizer's files name code to load with them."""
    for path in sorted(folder.glob("*.json")):
        if path.name.endswith(".index.json") or path.name in ("tokenizer.json", "vocab.json"):
            continue  # large, and without such a field
        try:
            content = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            continue  # told by its reader
        field = next((f for f in _CODE if isinstance(content, dict) and content.get(f)), "")
        if field:
            raise ConfigError(
                f"{path}: {field} names Python code in the model's folder, which Hermes Lab never runs: it would run "
                "with your rights, and no digest covers it; give a model that transformers knows by itself, or remove "
                "the field if it does"
            )
