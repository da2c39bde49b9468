"""`python -m fakes.gpu_lock_on_cpu ...`: the command line, with locks for a GPU accepted on a CPU."""

import sys

from hermes_lab.__main__ import main
from hermes_lab.training import lora

if __name__ == "__main__":
    lora.check_device = lambda *_, **__: None  # type: ignore[assignment]
    sys.exit(main())
