"""`python -m fakes.gpu_lock_on_cpu ...`: the command line, with locks for a GPU accepted on a CPU."""

from typing import Any

from hermes_lab.runners.cli import main
from hermes_lab.training import lora


def accept(*_: Any, **__: Any) -> None:
    """Instead of the check that there is a GPU."""


if __name__ == "__main__":
    lora.check_device = accept
    main()
