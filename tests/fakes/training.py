"""What trainings are given in tests: locks of a few steps, adapter files without weights, and a tokenizer."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakes.adapters import write_lora
from hermes_lab.training.lock import write_lock

TRAINING = [
    pytest.mark.long,
    pytest.mark.filterwarnings("default"),  # of the libraries under test
]


def hardware(**values: Any) -> dict[str, Any]:
    """The section `hardware` of a lock, with other `values`."""
    return {
        "gpu_memory": 24,
        "precision": "float32",
        "quantization": "none",
        "gradient_checkpointing": False,
        "packing": False,
        "micro_tokens": 1000,
    } | values


def killed_at(step: int) -> None:
    """From now on this process kills itself as soon as a GRPO step is logged, and not yet saved."""
    from hermes_lab.training.rounds import RoundTraining

    log = RoundTraining.log

    def log_and_die(self: RoundTraining, line: Any) -> None:
        log(self, line)
        if line["step"] == step:
            os.kill(os.getpid(), signal.SIGKILL)

    RoundTraining.log = log_and_die  # type: ignore[method-assign]


def smoke_lock(folder: Path, method: str, *, grpo: dict[str, Any] | None = None, **values: Any) -> str:
    """Writes the lock of `configs/locks/METHOD-smoke.yaml` with other `values` to `folder`, and returns its path."""
    content: dict[str, Any] = yaml.safe_load(Path(f"configs/locks/{method}-smoke.yaml").read_text()) | values
    if grpo:
        content["grpo"] |= grpo
    (folder / "values.yaml").write_text(yaml.safe_dump(content))
    write_lock(folder / "values.yaml", folder / "lock.yaml")
    return str(folder / "lock.yaml")


def bare_adapter(parent: Path) -> Path:
    """The two files of an adapter, enough for a server that does not read them."""
    return write_lora(parent / "tuned")


class Characters:
    """A tokenizer whose ids are code points and whose template ends a turn with `;`."""

    eos_token = ";"

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [ord(character) for character in text]

    def apply_chat_template(
        self, messages: Sequence[dict[str, Any]], *, tools: Any, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        assert not tokenize
        text = str(tools or "") + "".join(map(self.turn, self.shown(messages)))
        return text + "[assistant]" if add_generation_prompt else text

    def shown(self, messages: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """The messages that the template keeps."""
        return messages

    def turn(self, message: dict[str, Any]) -> str:
        """A message with its calls."""
        return f"[{message['role']}]{message['content']}{message.get('tool_calls', '')};\n"
