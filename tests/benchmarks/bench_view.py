"""What `hermes-lab view` costs: opening 10,000 episodes, seeing a new one, and what the run does for it.

python tests/benchmarks/bench_view.py
"""

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

sys.path[:0] = [str(Path(__file__).parents[1] / name) for name in ("", "runners")]

from fakes.episodes import RESULT, conversation, trajectory  # noqa: E402
from view_runs import add, in_progress, lesson, make_run, serving, set_running  # noqa: E402

from hermes_lab.activity import Activities  # noqa: E402
from hermes_lab.runners.engine import running  # noqa: E402
from hermes_lab.types import Message  # noqa: E402

EPISODES = 10_000
AT_ONCE = 2_000


def activity_rows(folder: Path) -> list[str]:
    """A change of state, and one file of 2,000 episodes of 30 messages."""
    activities = Activities()
    said = [Message("assistant", f"Step {n}: " + "it is looked at. " * 60) for n in range(30)]
    with ExitStack() as stack:
        for number in range(AT_ONCE):
            one = stack.enter_context(activities.episode(f"suite|t{number}|on|0|0", f"t{number}", "on"))
            one.messages = said.copy()
        started = time.perf_counter()
        for _ in range(100_000):
            one.wait_for("model")
        change = (time.perf_counter() - started) / 100_000
        path = folder / "running" / "1.json"
        first, *rest = (running._write(path, activities) for _ in range(6))
        seconds = min(rest)
    period = max(running.PERIOD, seconds / running._SHARE)
    return [
        f"a change of what an episode waits for: {1e6 * change:.2f} us",
        f"one file of {AT_ONCE:,} episodes ({path.stat().st_size / 1e6:.1f} MB): {1e3 * first:.0f} ms of CPU if all "
        f"have new messages, {1e3 * seconds:.0f} ms if none has, "
        f"every {period:.1f} s: {seconds / period:.1%} of a core",
    ]


def long_lesson(number: int) -> Any:
    """An episode of 30 kB."""
    base = lesson(number, "on" if number % 2 else "off", number % 3 == 0, number // 200)
    turns = (
        *conversation(f"Do word{number}", RESULT),
        *(Message("assistant", f"Step {turn} of {number}: " + "it is looked at. " * 90) for turn in range(18)),
    )
    return msgspec.structs.replace(base, round=number % 25, experience=number % 25, trajectory=trajectory(turns))


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def page_rows(folder: Path) -> list[str]:
    """Chromium, at the first visit and a second one, and the time until a running episode is seen."""
    from playwright.sync_api import sync_playwright

    run = make_run(folder / "run", [], wanted=EPISODES)
    for number in range(EPISODES):
        add(run, long_lesson(number))
    size = (run / "episodes" / "w0-0.jsonl").stat().st_size / 1e6
    rows = []
    with sync_playwright() as driver, serving(run) as address:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for visit in ("first", "second"):
            page = browser.new_page()
            list_ = timed(lambda page=page: (page.goto(address), page.wait_for_selector("#rows .row")))
            rest = timed(lambda page=page: page.get_by_text("10.0k of 10.0k episodes").wait_for())
            rows.append(
                f"{EPISODES:,} episodes, {size:.0f} MB, {visit} visit: rows after {list_:.2f} s, all of them after "
                f"{list_ + rest:.2f} s"
            )
        waits = []
        for number in range(5):
            set_running(run, in_progress(f"new{number}", "model", 0))
            waits.append(timed(lambda page=page, n=number: page.locator("#running").get_by_text(f"new{n}").wait_for()))
        rows.append(
            f"a running episode is seen {max(waits):.2f} s after its file, at most of 5, which is written every "
            f"{running.PERIOD:g} s"
        )
        browser.close()
    return rows


def main() -> None:
    """Prints the lines."""
    with tempfile.TemporaryDirectory() as base:
        for row in (*activity_rows(Path(base)), *page_rows(Path(base))):
            print(row)


if __name__ == "__main__":
    main()
