"""What must not change without new results: tasks, prompts and tool schemas, the results page, and old run folders.

python tests/guards.py            # checks all of it: 3 to 5 minutes
python tests/guards.py prompts    # only what a model sees
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GOLDEN = HERE / "golden" / "prompt-digests.json"
"""sha256 of everything that a model sees in the runs of `prompt_runs`: messages, tools, reviews."""

OLD_RUN = HERE / "golden" / "unfinished-run.tar.gz"
"""An experiment that an early version of this project began and did not finish: 5 of 16 episodes."""

OLD_FIELDS = (
    "suite.name=ledger",
    "learning.rounds=4",
    "learning.round_size=2",
    "learning.worlds=1",
    "learning.arms=[off, on]",
)
LEARNER = ("model.provider=scripted", "model.name=tasks.learner:learner", "skills.review_every=1")
DOMAINS = {
    "data_analysis": "event_logs, joins, ledger, sensors",
    "code_debugging": "plugins, repair, stale_build, test_order",
    "system_admin": "backups, dropins, rotation, services",
    "web_research": "aliases, errata, notices, registers",
    "report_generation": "figures, house_template, restatement, workbook",
    "open_ended": "",
}
"""The families of each domain when the golden file was made: one more family draws all worlds of its domain anew."""


def prompt_runs() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Runs by name, each with its configuration: every domain, prompt, tool format and tool."""
    for number, (domain, families) in enumerate(DOMAINS.items()):
        prompt, form = ("full", "compact")[number % 2], ("native", "hermes")[number // 2 % 2]
        fields = (f"suite.name={domain}", f"agent.prompt={prompt}", f"agent.tool_format={form}")
        fields += (f"suite.options.families=[{families}]",) if families else ()
        yield f"{domain}, {prompt}, {form}", (*fields, "agent.toolsets=[terminal, file, web, skills]")
    every = "[core, learning, compile, delegation, session_search, clarify, process, web]"
    for prompt in ("full", "compact"):
        yield f"all tools, {prompt}", ("suite.name=ledger", f"agent.prompt={prompt}", f"agent.toolsets={every}")


def experiment(fields: tuple[str, ...], out: Path) -> None:
    """Two lanes of two rounds, one without and one with skill learning."""
    small = ("learning.rounds=2", "learning.round_size=1", "learning.worlds=1", "learning.arms=[off, on]")
    options = [part for field in (*LEARNER, *small, *fields) for part in ("-c", field)]
    _lab("experiment", *options, "--out", str(out), "--quiet")


def digest(run: Path) -> str:
    """Of all messages and tools of a run, reviews included, by the episodes' keys."""
    rows = [json.loads(line) for file in (run / "episodes").glob("*.jsonl") for line in file.read_text().splitlines()]
    found = hashlib.sha256()
    for row in sorted(rows, key=lambda row: (row["lane"], row["round"], row["task_id"], row.get("phase", ""))):
        parts = [row["trajectory"], (row.get("review") or {}).get("trajectory")]
        seen = [_untimed([part["messages"], part["tools"]]) if part else None for part in parts]
        found.update(json.dumps(seen, sort_keys=True).encode())
    return found.hexdigest()


def _untimed(value: Any) -> Any:
    """Without how long tool calls and commands took."""
    if isinstance(value, str):
        return re.sub(r"\d+\.\d+ ?s(?![a-z])", "0s", value)
    if isinstance(value, list):
        return [_untimed(each) for each in value]
    if isinstance(value, dict):
        return {name: _untimed(each) for name, each in value.items() if name != "seconds"}
    return value


def prompt_digests() -> dict[str, str]:
    """The digest of each of `prompt_runs`."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, fields) in enumerate(prompt_runs()):
            experiment(fields, Path(folder) / str(number))
            found[name] = digest(Path(folder) / str(number))
    return found


def check_tasks() -> str:
    """The tasks of all families are the same bytes."""
    done = subprocess.run([sys.executable, HERE / "task_digests.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout.splitlines()[-1]


def check_prompts() -> str:
    """What a model sees is the same bytes."""
    golden, found = json.loads(GOLDEN.read_text()), prompt_digests()
    changed = [name for name in golden if found.get(name) != golden[name]]
    assert not changed, f"prompts changed: {', '.join(changed)}"
    return f"0 of {len(golden)} runs show a model other bytes"


def check_results() -> str:
    """The results page is what `results/` gives."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "test_results_page.py")]
    done = subprocess.run(pytest, capture_output=True, text=True, cwd=HERE.parent)
    assert done.returncode == 0, done.stdout
    return "docs/results.md is what results/ gives"


def check_old_run() -> str:
    """A run folder of an early version is read, summarised, fitted and compared, and never changed. Its prompts and
    tasks have other texts now: a replay says so, and a resume is refused."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(OLD_RUN) as archive:
            archive.extractall(folder, filter="data")
        run = Path(folder) / "run"
        before = _log(run)
        summary = _summary(run)
        assert (summary["finished"], summary["wanted"]) == (5, 16), summary
        _lab("fit", str(run))
        _lab("compare", str(run))
        said = _refusal("replay", str(run), "--episode", "0")
        assert "version 1 of the prompts" in said, said
        assert "version 1 of the tasks" in said, said
        fields = [part for field in (*LEARNER, *OLD_FIELDS) for part in ("-c", field)]
        refused = _refusal("experiment", *fields, "--out", str(run), "--resume", "--quiet")
        assert "version 1 of the prompts" in refused, refused
        assert _log(run) == before
    return "an old run folder is read, summarised, fitted and compared, and tells its version"


def _log(run: Path) -> list[str]:
    return [line for file in sorted((run / "episodes").glob("*.jsonl")) for line in file.read_text().splitlines()]


def _summary(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_lab("summary", str(run), "--json"))
    return found


def _lab(*args: str) -> str:
    done = _run(*args)
    assert done.returncode == 0, f"{' '.join(args)}: {done.stderr}"
    return done.stdout


def _refusal(*args: str) -> str:
    done = _run(*args)
    assert done.returncode != 0, f"{' '.join(args)}: {done.stdout}"
    return done.stderr


def _run(*args: str) -> subprocess.CompletedProcess[str]:
    module = os.environ.get("HERMES_LAB_MODULE", "hermes_lab")
    return subprocess.run([sys.executable, "-m", module, *args], capture_output=True, text=True)


CHECKS: dict[str, Callable[[], str]] = {
    "tasks": check_tasks,
    "prompts": check_prompts,
    "results": check_results,
    "old-run": check_old_run,
}


def main() -> None:
    """Runs the named checks, or all."""
    for name in sys.argv[1:] or CHECKS:
        print(f"{name}: {CHECKS[name]()}", flush=True)


if __name__ == "__main__":
    main()
