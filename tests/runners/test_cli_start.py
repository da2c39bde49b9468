"""The command line answers at once: a tab's completion imports all of it."""

import subprocess
import sys

HEAVY = (
    *("numpy", "pandas", "pyarrow", "scipy", "matplotlib", "aiohttp", "ray", "torch", "transformers", "datasets"),
    *("asyncssh", "grpclib", "mcp", "modal"),
)


def test_the_command_line_starts_without_the_libraries_that_only_some_commands_need() -> None:
    code = f"import sys, runners.cli; print([name for name in {HEAVY} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
