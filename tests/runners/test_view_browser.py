"""The page of `hermes-lab view` in a real browser: what a person sees of a run that goes on, and what a text cannot
do."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.episodes import episode, trajectory
from fakes.openai_server import FakeOpenAIServer, running
from view_runs import (
    add,
    hang,
    in_progress,
    lesson,
    make_run,
    options,
    processes,
    serving,
    set_running,
)

from hermes_lab.types import Message, SkillUse, SkillWrite, ToolCall, ToolResult, Verdict

sys.path.append(str(Path(__file__).parents[1] / "analysis"))
from report_attacks import ATTACKS

CHROMIUM = Path("/usr/bin/chromium")
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: {CHROMIUM} is not there")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """40 episodes in two arms, of 60."""
    done = [lesson(n, arm, arm == "on" and n > 2) for n in range(20) for arm in ("off", "on")]
    return make_run(tmp_path / "runs" / "lessons", done, wanted=60)


@pytest.fixture
def address(run: Path) -> Iterator[str]:
    with serving(run.parent) as address:
        yield address


@pytest.fixture
def open_page(browser: Any, address: str) -> Iterator[Open]:
    """Opens the view, and closes it before the server of `address` ends. At the end nothing was complained of, and
    nothing was asked of any other address."""
    del address
    complaints: list[str] = []
    contexts = []

    def open_(address: str, at: str = "", *, width: int = 1280, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 844}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda said: complaints.append(f"console: {said.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda asked: asked.url.startswith((address, "data:,")) or complaints.append(asked.url))
        page.goto(address + at)
        page.wait_for_selector("html[data-ready]", state="attached")
        if page.locator(".run").count():
            page.locator("#count", has_text=re.compile("^(?!reading|Reading)")).wait_for()
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []


def shown(page: Any, text: str, inside: str = "body") -> None:
    page.locator(inside).get_by_text(text).first.wait_for()


def test_a_run_is_shown_with_its_progress_curves_and_episodes(open_page: Open, address: str) -> None:
    page = open_page(address)
    shown(page, "40 of 60 episodes finished", "#run-state")
    shown(page, "incomplete", "#runs")
    assert page.locator("#curves path.point").count() >= 20
    shown(page, "40 of 40 episodes", "#count")
    assert page.locator("#rows .row").count() > 5


def test_a_running_episode_appears_grows_and_ends_without_a_reload(open_page: Open, address: str, run: Path) -> None:
    page = open_page(address)
    assert page.locator("#now").is_hidden()
    set_running(run, in_progress("t77", "model", 37, "I look at it."))
    shown(page, "turn 2, waiting for the model for 0:", "#running")
    shown(page, "running", "#runs")
    page.locator("#running button").click()
    shown(page, "I look at it.", "#viewer")
    shown(page, "turn 2, waiting for the model for 0:", "#viewer")
    set_running(run, in_progress("t77", "command", 3, "I look at it.", "Now I run it.", turn=3))
    shown(page, "Now I run it.", "#viewer")
    shown(page, "turn 3, waiting for a command for 0:0", "#viewer")
    add(run, episode("t77", lane="on-r0-w0", success=True))
    (run / "running" / next(path.name for path in (run / "running").iterdir())).unlink()
    shown(page, "solved", "#viewer .side b")
    page.keyboard.press("Escape")
    shown(page, "41 of 60 episodes finished", "#run-state")
    assert page.locator("#now").is_hidden()
    assert "solved" in page.locator("#rows .row", has_text="t77").inner_text()


def test_a_button_can_be_pressed_slowly_while_the_run_goes_on(open_page: Open, address: str, run: Path) -> None:
    set_running(run, in_progress("t77", "model", 37, "I look at it."))
    page = open_page(address)
    page.locator("#running button").hover()
    page.mouse.down()
    set_running(run, in_progress("t77", "command", 3, "I look at it."))
    with page.expect_response(re.compile("api/now")):
        pass
    page.wait_for_timeout(500)
    page.mouse.up()
    shown(page, "I look at it.", "#viewer")


def test_the_longest_wait_is_first_in_the_panel_and_in_the_list(open_page: Open, address: str, run: Path) -> None:
    set_running(run, in_progress("short", "model", 3), in_progress("long", "verifier", 300))
    page = open_page(address)
    shown(page, "short", "#running")
    assert page.locator("#running li").first.inner_text().startswith("long")
    assert page.locator("#rows .row").first.inner_text().startswith("long")
    assert "the verifier, 5:0" in page.locator("#rows .row").first.inner_text()


def test_the_episodes_of_a_killed_process_are_stopped(open_page: Open, address: str, run: Path) -> None:
    set_running(run, in_progress("cut", "model", 37, "Half a"), begun="1")
    page = open_page(address)
    shown(page, "stopped", "#runs")
    shown(page, "The process of this run is gone.", "#warnings")
    assert page.locator("#now").is_hidden()
    page.locator("#rows .row", has_text="cut").click()
    shown(page, "Half a", "#viewer")
    shown(page, "turn 2, was waiting for the model", "#viewer")


def test_a_run_at_a_hanging_endpoint_is_named_and_stopped_once_it_is_killed(open_page: Open, tmp_path: Path) -> None:
    runs = tmp_path / "others"
    runs.mkdir()
    with running(FakeOpenAIServer(hang)) as endpoint, processes() as start, serving(runs) as address:
        page = open_page(address)
        process = start(*options(runs, endpoint.base_url))
        shown(page, "turn 1, waiting for the model for 0:", "#running")
        page.locator("#running button").click()
        shown(page, "Say it.", "#viewer")
        process.kill()
        process.wait()
        shown(page, "turn 1, was waiting for the model", "#viewer")
        page.keyboard.press("Escape")
        shown(page, "stopped", "#runs")
        assert page.locator("#now").is_hidden()
        page.close()


def test_damaged_lines_are_counted(open_page: Open, address: str, run: Path) -> None:
    with (run / "episodes" / "w0-0.jsonl").open("ab") as file:
        file.write(b"{\n{\n")
    page = open_page(address)
    shown(page, "2 lines of the log cannot be read and are left out.", "#warnings")


def test_filters_and_search(open_page: Open, address: str) -> None:
    page = open_page(address)
    page.select_option("#filter-series", "on")
    page.select_option("#filter-outcome", "solved")
    shown(page, "17 of 40 episodes", "#count")
    page.click("#clear")
    page.fill("#query", "t19")
    shown(page, "2 of 40 episodes", "#count")
    page.check("#deep")
    page.fill("#query", "WORD7")
    shown(page, "2 of 40 episodes", "#count")
    page.locator("#rows .row").first.click()
    assert page.locator("#viewer mark").first.inner_text() == "word7"


def test_an_episode_opens_beside_its_counterpart_and_by_its_address(open_page: Open, address: str) -> None:
    page = open_page(address)
    page.fill("#query", "t5")
    page.locator("#rows .row").first.click()
    page.wait_for_selector("#viewer .steps:not(.single)")
    assert page.locator("#viewer .side select").count() == 2
    at = page.evaluate("location.hash")
    assert "run=lessons" in at
    other = open_page(address, at)
    other.wait_for_selector("#viewer .steps:not(.single)")
    assert other.evaluate("location.hash") == at
    gone = open_page(address, "#run=lessons&episode=nothing")
    shown(gone, "No episode nothing in this run.")


def test_keys_alone_are_enough(open_page: Open, address: str) -> None:
    page = open_page(address)
    page.keyboard.press("/")
    page.keyboard.type("t1")
    page.keyboard.press("Enter")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("#viewer .steps")
    first, second = (page.locator("#rows .row > :first-child").nth(at).inner_text() for at in (1, 2))
    assert first != second
    shown(page, first, "#viewer-title")
    page.keyboard.press("j")
    page.keyboard.press("j")  # its counterpart is between them
    shown(page, second, "#viewer-title")
    page.keyboard.press("Escape")
    assert page.locator("#viewer").is_hidden()
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    page.locator(".run").first.focus()
    page.keyboard.press("Enter")
    shown(page, "40 of 40 episodes", "#count")


def test_another_run_is_chosen_and_one_that_begins_appears(open_page: Open, address: str, run: Path) -> None:
    page = open_page(address)
    make_run(run.parent / "second", [lesson(0, "on", True)])
    page.locator(".run", has_text="second").click()
    shown(page, "1 of 1 episodes finished", "#run-state")
    shown(page, "1 of 1 episodes", "#count")
    assert page.evaluate("location.hash") == "#run=second"


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(open_page: Open, address: str, run: Path, width: int) -> None:
    set_running(run, in_progress("a-task-with-a-long-name-" * 6, "model", 4000, "x" * 500))
    page = open_page(address, width=width)
    shown(page, "waiting for", "#running")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.locator("#running button").first.click()
    shown(page, "waiting for", "#viewer")
    assert page.evaluate("document.querySelector('#viewer').scrollWidth") <= width


def test_light_and_dark(open_page: Open, address: str) -> None:
    colours = set()
    for scheme in ("light", "dark"):
        page = open_page(address, color_scheme=scheme)
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.keyboard.press("t")
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2


def test_ten_thousand_episodes_are_a_screen_of_rows(open_page: Open, tmp_path: Path) -> None:
    make_run(tmp_path / "others" / "large", [lesson(n, "on", True) for n in range(10_000)])
    with serving(tmp_path / "others") as address:
        page = open_page(address)
        shown(page, "10.0k of 10.0k episodes", "#count")
        assert page.locator("#rows .row").count() < 60
        page.evaluate("document.querySelector('#grid').scrollTop = 1e9")
        shown(page, "t0", "#rows")
        page.close()


def test_hostile_texts_are_texts(open_page: Open, tmp_path: Path) -> None:
    run = make_run(tmp_path / "others" / "a <img src=x onerror=alert(1)>")
    for number, attack in enumerate(ATTACKS):
        write = SkillWrite("create", attack, attack, "review", "e", "m", "s")
        turns = (
            Message("system", attack),
            Message("user", attack),
            Message("assistant", attack, tool_calls=(ToolCall("c", attack, {attack: attack}, attack),)),
            Message("tool", attack, results=(ToolResult("c", attack, attack, ok=False),)),
        )
        name = f"{number} {attack}".replace("|", "")
        add(run, episode(
            name, lane=f"{attack.replace('|', '')}-r0-w0", trajectory=trajectory(turns),
            skills=SkillUse("s", (attack,), (attack,), (write,)),
            verdicts=(Verdict(0.5, False, {attack: 0.5}, attack, {attack: attack}),), success=False,
        ))  # fmt: skip
    set_running(run, *(in_progress(attack.replace("|", ""), "model", 20, attack, arm=attack) for attack in ATTACKS))
    with serving(run.parent) as address:
        page = open_page(address)
        shown(page, "running", "#runs")
        for row in range(6):
            page.locator("#rows .row").nth(row).click()
            page.wait_for_selector("#viewer .step")
            page.keyboard.press("Escape")
        page.locator("#running button").first.click()
        page.wait_for_selector("#viewer .step")
        assert page.evaluate("window.hacked") is None
        assert page.locator("iframe, main img, #viewer img, #viewer a, svg[onload]").count() == 0
        assert not re.search("[\u202e\x1b]", page.evaluate("document.body.textContent"))
        page.close()


def test_a_server_that_has_ended_is_said(browser: Any, run: Path) -> None:
    with serving(run) as address:
        page = browser.new_page()
        page.goto(address)
        shown(page, "40 of 60", "#run-state")
    shown(page, "No answer: is hermes-lab view still running?", "#connection")
    page.close()
