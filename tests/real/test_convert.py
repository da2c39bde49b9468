"""The packaged model is the same folder wherever it is converted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_lab.models import weights

pytestmark = pytest.mark.long


def test_a_conversion_without_a_hub_makes_the_same_tokenizer(tmp_path: Path) -> None:
    here = weights.resolve(weights.PACKAGED)
    environment = os.environ | {"HERMES_LAB_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    command = "from hermes_lab.models import weights; print(weights.resolve('packaged'))"
    done = subprocess.run(
        [sys.executable, "-c", command], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    offline = Path(done.stdout.strip())
    for name in ("tokenizer_config.json", "tokenizer.json", "chat_template.jinja", "config.json"):
        assert (offline / name).read_text() == (here / name).read_text()
