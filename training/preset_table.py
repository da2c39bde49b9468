"""The table of docs/gpu.md: what fits which GPU. `python -m hermes_lab.training.preset_table PAGE` updates it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from hermes_lab.errors import ConfigError
from hermes_lab.models.cards import Method
from hermes_lab.records import write_atomic
from hermes_lab.training.architecture import known
from hermes_lab.training.memory import GB
from hermes_lab.training.presets import preset

GPUS = (24, 48, 80)
BEGIN, END = "<!-- table of presets -->", "<!-- end of table -->"
_LEFT_OUT = ("packaged", "HuggingFaceTB/SmolLM2-135M-Instruct", "Qwen/Qwen3-4B-Instruct-2507")


def lines() -> Iterator[str]:
    """The table in Markdown: GB of the largest step, and how it fits."""
    sizes = [*(f"{gpu} GB" for gpu in GPUS), *(f"{gpu} GB, QLoRA" for gpu in GPUS)]
    yield f"| base | method | {' | '.join(sizes)} |"
    yield "|---|---|" + "---|" * (2 * len(GPUS))
    for base in known():
        if base in _LEFT_OUT:
            continue
        for method in get_args(Method):
            cells = [_cell(base, gpu, method, qlora) for qlora in (False, True) for gpu in GPUS]
            yield f"| {base.partition('/')[2]} | {method} | {' | '.join(cells)} |"


def _cell(base: str, gpu: int, method: Method, qlora: bool) -> str:
    try:
        found = preset(base, gpu, method, qlora=qlora)
    except ConfigError:
        return "no"
    hardware = found.locked.hardware
    assert hardware
    marks = "q" * (hardware.quantization == "nf4" and not qlora) + "c" * hardware.gradient_checkpointing
    return f"{found.memory.total / GB:.1f}{' ' if marks else ''}{marks}"


def update(page: Path) -> None:
    """Replaces the table of a page."""
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    write_atomic(page, "\n".join([before + BEGIN, *lines(), END]) + after)


if __name__ == "__main__":
    update(Path(sys.argv[1]))
