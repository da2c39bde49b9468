"""What an import costs, in milliseconds over those of a bare interpreter.

python tests/benchmarks/bench_import.py
"""

import statistics
import subprocess
import sys
import time

TURNS = 9
KINDS = {
    "python -c pass": "pass",
    "import hermes_lab": "import hermes_lab",
    "import hermes_lab.rollout": "import hermes_lab.rollout",
    "the command line": "import hermes_lab.runners.cli",
}


def milliseconds(code: str) -> float:
    """Of one start, in a process of its own."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return 1e3 * (time.perf_counter() - started)


def main() -> None:
    """Prints a table in Markdown."""
    turns = {kind: [milliseconds(code) for _ in range(TURNS)] for kind, code in KINDS.items()}
    print("| start, median of 9 | ms |\n|---|---|")
    for kind, times in turns.items():
        print(f"| {kind} | {statistics.median(times):.0f} |")


if __name__ == "__main__":
    main()
