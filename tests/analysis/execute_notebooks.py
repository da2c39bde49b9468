"""Runs the notebooks of analysis/notebooks. As a script it writes what they give: `make notebooks`."""

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "analysis" / "notebooks"
SECONDS = 300
"""A cell that takes longer hangs. No test asserts a time; the machine may be loaded."""

OFFLINE = """
import socket

def _connect(self, address, connect=socket.socket.connect):
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"a notebook asked the network for {address}")
    return connect(self, address)

socket.socket.connect = _connect
"""
"""Python reads it before anything else, in the kernel and in what the kernel starts."""

PACE = re.compile(r" in [\d:]+(?=,)|, [\d.,]+ (?:episodes|tokens)/s|\([\d-]+ [\d:]+ UTC, plan\.json [0-9a-f]+\)")
"""How long a run took and how fast it was, and when its plan was registered."""


def notebooks() -> list[Path]:
    """All of them, in their order."""
    return sorted(FOLDER.glob("*.ipynb"))


def execute(path: Path, folder: Path, **environment: str) -> Any:
    """The notebook with its outputs made anew, in an empty working folder and without a network.

    Raises `CellExecutionError` at the first cell that fails.
    """
    home, work = folder / "home", folder / "work"
    for made in (home, work):
        made.mkdir(parents=True)
    (home / "sitecustomize.py").write_text(OFFLINE)
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    variables = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(home), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "IPYTHONDIR": str(home / "ipython"),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "COLUMNS": "120",
        # One thread: the machine may be shared, and these matrices are small.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    # An endpoint of the person who runs this would change the outputs.
    variables = {name: value for name, value in variables.items() if not name.startswith("HERMES_LAB_MODEL_")}
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=SECONDS,
        startup_timeout=SECONDS,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(work)}},
    )
    client.execute(env=variables | environment)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran, which would change with every run
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    return notebook


def _joined(outputs: list[Any]) -> list[Any]:
    """What was printed comes in pieces that depend on the clock; here a stream is one output."""
    joined: list[Any] = []
    for output in outputs:
        if output.output_type == "stream" and joined and joined[-1].get("name") == output.name:
            joined[-1].text += output.text
        else:
            joined.append(output)
    for output in joined:
        if output.output_type == "stream":
            # A shell cell's command writes to a terminal. A piece may end between the two characters.
            output.text = output.text.replace("\r\n", "\n")
    return joined


def text(output: Any) -> str:
    """What an output says in words, without times; a picture says only what it is."""
    said = output.text if output.output_type == "stream" else output.get("data", {}).get("text/plain", "")
    return PACE.sub("", str(said))


def main(names: list[str]) -> None:
    """Executes the notebooks whose names hold one of `names` (all, without any) and writes them back."""
    for path in notebooks():
        if names and not any(name in path.name for name in names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(execute(path, Path(folder)), path)
        print(f"{path.name}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
