"""Servers whose tools a test writes down."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from served_tools import FAKE, Given


@pytest.fixture
def server(tmp_path: Path) -> Given:
    """The configuration of a server with these tools; `name` is that of its file, which another call overwrites."""

    def given(*tools: dict[str, Any], name: str = "spec", **fields: Any) -> dict[str, Any]:
        spec = tmp_path / f"{name}.json"
        config = {"scope": fields.pop("scope", "episode")}
        log = [str(tmp_path / f"{name}.log")] if config["scope"] == "run" else []
        spec.write_text(json.dumps({"name": "fake", "version": "1", **fields, "tools": list(tools)}))
        if config["scope"] == "episode":
            config["installed"] = [str(tmp_path), str(FAKE)]
        python = "/usr/bin/python3" if config["scope"] == "episode" else sys.executable
        return {**config, "command": python, "args": [str(FAKE), str(spec), *log]}

    tmp_path.chmod(0o755)
    return given
