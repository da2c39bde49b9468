"""The page of a report in a real browser, opened from the disk: what a person sees, and what a text cannot do."""

import re
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from report_attacks import ATTACKS, attacked
from synthetic_episodes import make_episode

from hermes_lab.analysis.report.page import write_report
from hermes_lab.config.schema import RunConfig
from hermes_lab.manifest import RunManifest
from hermes_lab.records import write_json
from hermes_lab.types import (
    Episode,
    Message,
    ModelIdentity,
    SkillUse,
    ToolCall,
    ToolResult,
    Trajectory,
    Usage,
    Verdict,
)

CHROMIUM = Path("/usr/bin/chromium")
Open = Callable[..., Any]


def message(role: str, content: str, **more: Any) -> Message:
    return Message(role, content, **more)  # type: ignore[arg-type]


def work(task: int, skilled: bool, right: bool) -> Trajectory:
    """Reads, with a skill or without; runs; submits; and where that is wrong, hears of it and runs again."""
    load = (
        message("assistant", "There is a skill.", tool_calls=(ToolCall("s", "skill_view", {"name": "tea"}),)),
        message("tool", '{"name": "tea"}', results=(ToolResult("s", "skill_view", '{"name": "tea"}'),)),
    )
    command = "brew --hot" if skilled else "brew"
    output = '{"output": "a cup\\nof tea\\n", "exit_code": 0}'
    run = (
        message("assistant", "I brew.", tool_calls=(ToolCall("r", "terminal", {"command": command}),)),
        message("tool", output, results=(ToolResult("r", "terminal", output),)),
        message("assistant", "Done."),
    )
    again = (message("user", "It is cold."), *run)
    told = (message("system", "You are Hermes."), message("user", f"Brew tea number {task}, please."))
    turns = (*told, *(load if skilled else ()), *run, *(() if right else again))
    return Trajectory(turns, (), "native", "answered", usage=Usage(900, 100))


def tea(task: int, arm: str, lane: int) -> Episode:
    """Task 0 is lost with skills, 1 to 5 gained, the rest never solved at first."""
    right = task == 0 if arm == "off" else 1 <= task <= 5
    skilled = arm == "on" and task > 0
    verdicts = (Verdict(1, True),) if right else (Verdict(0, False, {"hot": 0}, "It is cold."), Verdict(1, True))
    use = SkillUse("s", ("tea",), ("tea",), ()) if skilled else SkillUse("s")
    name = f"{arm}-r0-w{lane}"
    return make_episode(
        right, task=task, lane=name, verdicts=verdicts, trajectory=work(task, skilled, right), skills=use
    )


def weights_and_skills() -> Iterator[Episode]:
    for number, adapter in enumerate(("", "tuned-on-every-world-0a1b2c3d")):
        model = ModelIdentity("scripted", "a-model-whose-name-is-rather-long-12B-instruct", adapter=adapter)
        for n, arm in product(range(9), ("off", "on")):
            yield msgspec.structs.replace(tea(n, arm, 0), model=model, lane=f"{arm}-r0-w0-a{number}")


def uplift_lanes() -> Iterator[Episode]:
    for n, arm in product(range(6), ("all", "without-a-skill-whose-name-is-as-long-as-they-come")):
        yield make_episode(arm == "all", task=n, round=0, lane=f"{arm}-r0-w0", phase="heldout")


def report_of(folder: Path, episodes: list[Episode], command: str = "learn") -> Path:
    (folder / "episodes").mkdir(parents=True)
    lines = b"".join(msgspec.json.encode(episode) + b"\n" for episode in episodes)
    (folder / "episodes" / "w0-0.jsonl").write_bytes(lines)
    manifest = RunManifest(
        command=command, config=RunConfig().model_dump(mode="json"), config_digest="", tasks_digest="",
        wanted=len(episodes), created_at="", versions={},
    )  # fmt: skip
    write_json(folder / "run.json", manifest)
    write_report([folder], folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    arms = ("off", "on")
    return {
        "tea": report_of(folder / "tea", [tea(n, arm, lane) for n in range(9) for lane in range(6) for arm in arms]),
        "attacks": report_of(folder / "attacks", attacked()),
        "weights": report_of(folder / "weights", list(weights_and_skills())),
        "uplift": report_of(folder / "uplift", list(uplift_lanes()), "uplift"),
        "long": report_of(
            folder / "long", [tea(n, arm, lane) for n in range(250) for lane in range(6) for arm in arms]
        ),
    }


@pytest.fixture(scope="module")
def browser(pages: dict[str, Path]) -> Iterator[Any]:
    del pages  # made first: while the browser is driven, no other event loop can run here
    if not CHROMIUM.exists():
        pytest.skip(f"no browser: {CHROMIUM} is not there")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any, pages: dict[str, Path]) -> Iterator[Open]:
    """Opens a report; at the end nothing was complained of, and nothing was asked of any network."""
    complaints: list[str] = []
    contexts = []

    def open_(name: str, *, width: int = 1280, height: int = 800, at: str = "", **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda said: complaints.append(f"console: {said.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda asked: asked.url.startswith("file:") or complaints.append(asked.url[:200]))
        page.goto(f"file://{pages[name]}{at}")
        if options.get("java_script_enabled", True):
            page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []


def test_verdict_effect_cost_and_regressions_are_seen_without_scrolling(open_page: Open) -> None:
    page = open_page("tea")
    for seen in ("#verdict h1", ".effect .dot", "text=tokens / solved", ".worst a"):
        box = page.locator(seen).first.bounding_box()
        assert box, seen
        assert 0 <= box["y"] < 800 - box["height"], seen
    assert page.inner_text("#verdict h1").startswith("Skills: better by +44 points")


def test_narrow_screen_does_not_scroll_sideways(open_page: Open) -> None:
    page = open_page("tea", width=420)
    assert page.evaluate("document.documentElement.scrollWidth") == 420


def test_page_is_read_without_script(open_page: Open) -> None:
    page = open_page("tea", java_script_enabled=False)
    assert page.locator(".curves .point").count() > 0
    assert page.locator("#verdict h1").is_visible()


def test_regression_opens_both_sides(open_page: Open) -> None:
    page = open_page("tea")
    page.click(".worst a")
    page.wait_for_selector("#viewer .steps")
    assert page.locator("#viewer .side b.good").inner_text() == "solved"
    assert page.locator("#viewer .side b.fair").inner_text() == "solved after feedback"


def test_steps_are_aligned_and_differences_marked(open_page: Open) -> None:
    page = open_page("tea")
    page.select_option("#filter-change", "gained")
    page.locator("#grid").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#viewer .steps")
    rows = page.locator("#viewer .pair").evaluate_all(
        "rows => rows.map(row => [row.dataset.state, ...[...row.querySelectorAll('.step, .gap')]"
        ".map(cell => cell.matches('.gap') ? '-' : [...cell.querySelectorAll('header b, header code')]"
        ".map(each => each.textContent).join(' '))])"
    )
    assert rows == [
        ["same", "system prompt", "system prompt"],
        ["same", "user", "user"],
        ["alone", "-", "assistant skill_view"],
        ["alone", "-", "result skill_view"],
        ["changed", "assistant terminal", "assistant terminal"],
        ["same", "result terminal", "result terminal"],
        ["same", "assistant", "assistant"],
        ["changed", "verdict", "verdict"],
        ["alone", "user", "-"],
        ["alone", "assistant terminal", "-"],
        ["alone", "result terminal", "-"],
        ["alone", "assistant", "-"],
        ["alone", "verdict", "-"],
    ]
    assert page.locator("#viewer .line.differs", has_text="brew --hot").count() == 1
    assert page.locator("#viewer .chips .loaded").first.inner_text() == "tea"


def test_keys_go_through_the_list_and_the_viewer(open_page: Open) -> None:
    page = open_page("tea")
    press = page.keyboard.press
    press("?")
    assert page.locator("#help").is_visible()
    press("Escape")
    press("/")
    assert page.evaluate("document.activeElement.id") == "query"
    press("Escape")
    press("f")
    assert page.evaluate("document.activeElement.id") == "filter-series"
    page.locator("#grid").focus()
    press("j")
    press("ArrowDown")
    press("k")
    assert page.get_attribute("#grid", "aria-activedescendant") == "row-1"
    press("Enter")
    title = page.wait_for_selector("#viewer-title").inner_text()
    press("j")
    page.wait_for_function("title => document.getElementById('viewer-title').textContent !== title", arg=title)
    steps = page.locator("#viewer .pair:visible").count()
    press("d")
    assert page.locator("#viewer .pair:visible").count() < steps
    press("n")
    assert page.locator("#viewer .pair.here").is_visible()
    press("Escape")
    assert page.locator("#viewer").is_hidden()
    assert page.evaluate("document.activeElement.id") == "grid"


def test_focus_stays_in_the_viewer(open_page: Open) -> None:
    page = open_page("tea")
    page.click(".worst a")
    page.wait_for_selector("#viewer .steps")
    for _ in range(30):
        page.keyboard.press("Tab")
        assert page.evaluate("document.getElementById('viewer').contains(document.activeElement)")


def test_address_names_the_episodes(open_page: Open) -> None:
    page = open_page("tea", at="#episode=demo%7Ct3%7Con-r0-w2%7C3%7C0")
    assert page.wait_for_selector("#viewer-title").inner_text() == "t3"
    lanes = page.locator("#viewer select").evaluate_all("all => all.map(one => one.selectedOptions[0].textContent)")
    assert lanes == ["skills off (off-r0-w2)", "skills on (on-r0-w2)"]
    again = open_page("tea", at=page.url[page.url.index("#") :])
    assert again.wait_for_selector("#viewer-title").inner_text() == "t3"
    lost = open_page("tea", at="#episode=nothing")
    lost.wait_for_function("() => document.getElementById('count').textContent.startsWith('No episode nothing')")


def test_filters_and_search_by_task(open_page: Open) -> None:
    page = open_page("tea")

    def count() -> str:
        return str(page.inner_text("#count"))

    page.select_option("#filter-series", "skills on")
    assert count() == "54 of 108 episodes"
    page.select_option("#filter-change", "changed")
    assert count() == "36 of 108 episodes"
    page.check("#filter-loaded")
    assert count() == "30 of 108 episodes"
    page.select_option("#filter-round", "2")
    assert count() == "6 of 108 episodes"
    page.click("#clear")
    page.wait_for_function("() => document.getElementById('count').textContent === '108 of 108 episodes'")
    page.fill("#query", "T3")
    assert count() == "12 of 108 episodes"


def test_text_of_all_messages_is_searched(open_page: Open) -> None:
    page = open_page("tea")
    page.check("#deep")
    page.fill("#query", "brew --HOT")
    page.wait_for_function("() => document.getElementById('count').textContent === '48 of 108 episodes'")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.wait_for_selector("#viewer .steps")
    assert page.locator("#viewer mark").first.inner_text() == "brew --hot"


def test_search_without_a_task_is_offered_in_all_messages(open_page: Open) -> None:
    page = open_page("tea")
    assert page.get_attribute("#query", "placeholder") == "task id"
    assert page.locator("#deeper").is_hidden()
    page.fill("#query", "t3")
    assert page.locator("#deeper").is_hidden()
    page.fill("#query", "brew --hot")
    assert page.inner_text("#count") == "0 of 108 episodes"
    page.click("#deeper")
    page.wait_for_function("() => document.getElementById('count').textContent === '48 of 108 episodes'")
    assert page.locator("#deeper").is_hidden()
    assert page.is_checked("#deep")
    assert page.get_attribute("#query", "placeholder") == "text of messages"
    page.click("#clear")
    page.wait_for_function("() => document.getElementById('count').textContent === '108 of 108 episodes'")
    assert page.get_attribute("#query", "placeholder") == "task id"


def test_costs_of_weights_and_skills_are_seen_whole(open_page: Open) -> None:
    page = open_page("weights")
    assert page.locator("#verdict .small tbody tr").count() == 4
    assert page.locator("#verdict .scroll").evaluate_all("all => all.every(one => one.scrollWidth <= one.clientWidth)")


def test_uplift_is_seen_whole_and_its_links_lead_somewhere(open_page: Open) -> None:
    page = open_page("uplift")
    assert page.locator("#verdict .scroll").evaluate("table => table.scrollWidth <= table.clientWidth")
    assert page.locator("#top nav a").evaluate_all("all => all.every(one => document.querySelector(one.hash))")
    assert page.inner_text("#top nav a:first-child") == "Verdict"


def test_long_list_has_few_elements(open_page: Open) -> None:
    page = open_page("long")
    assert page.inner_text("#count") == "3,000 of 3,000 episodes"
    grid = page.locator("#grid")
    for share in (0.3, 0.7, 1):
        grid.evaluate("(grid, share) => { grid.scrollTop = grid.scrollHeight * share; }", share)
        page.wait_for_timeout(50)
        assert 0 < page.locator("#rows .row").count() < 60
    assert page.locator("#row-2999").is_visible()


def test_list_is_sorted_by_a_column(open_page: Open) -> None:
    page = open_page("tea")
    head = page.locator(".row.head button", has_text="pair")
    head.click()
    assert page.locator("[aria-sort]").get_attribute("aria-sort") == "ascending"
    up = page.locator("#rows .change").all_inner_texts()
    head.click()
    down = page.locator("#rows .change").all_inner_texts()
    assert (up[0], down[0]) == ("gained", "neither")


def test_texts_do_nothing_but_stand_there(open_page: Open) -> None:
    page = open_page("attacks")
    page.check("#deep")
    page.fill("#query", "hacked")
    page.wait_for_function("() => document.getElementById('progress').hidden")
    page.click("#clear")
    page.locator("#grid").focus()
    for number in range(2 * len(ATTACKS)):
        page.keyboard.press("Enter" if number == 0 else "j")
        page.wait_for_selector("#viewer .steps")
        page.locator("#viewer summary").evaluate_all("all => all.forEach(each => each.click())")
        text = page.evaluate("document.getElementById('viewer').textContent")
        assert not re.search("[\x00-\x08\x0b-\x1f\u200b\u202a-\u202e\u2066-\u2069]", text)
    page.keyboard.press("Escape")
    assert page.evaluate("window.hacked") is None
    assert page.locator("iframe, img, a[href^=javascript]").count() == 0
    assert page.locator("script").count() == page.locator("script[type='text/plain']").count() + 1
    shown = page.inner_text("body")
    assert "</script><script>window.hacked = 1</script>" in shown
    assert "␛[2J␛[31mred␇" in shown
    assert "safe[U+202E]gnp.exe[U+2066][U+200B]" in shown


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_read_in_light_and_dark(open_page: Open, scheme: str) -> None:
    page = open_page("tea", color_scheme=scheme)
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 26)"
    assert dark == (scheme == "dark")
    assert page.evaluate(FAINT) == []
    page.click(".worst a")
    page.wait_for_selector("#viewer .steps")
    assert page.evaluate(FAINT) == []
    page.keyboard.press("t")
    assert (page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 26)") != dark
    assert page.evaluate(FAINT) == []


FAINT = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour, under) => {
    canvas.fillStyle = under; canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (node) => {
    const all = [];
    for (; node; node = node.parentElement) all.unshift(getComputedStyle(node).backgroundColor);
    return all.reduce((under, over) => `rgb(${rgb(over, under)})`, "rgb(255, 255, 255)");
  };
  const faint = new Set();
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim());
    if (!own || !node.checkVisibility() || node.closest("script, option")) continue;
    const style = getComputedStyle(node);
    const back = behind(node);
    const front = `rgb(${rgb(node.closest("svg") ? style.fill : style.color, back)})`;
    const [light, dark] = [luminance(rgb(front, back)), luminance(rgb(back, back))].sort((a, b) => b - a);
    const opacity = Number(style.opacity);
    const ratio = (light + 0.05) / (dark + 0.05);
    const name = `${node.tagName}.${node.className.baseVal ?? node.className}`;
    if (ratio * opacity < 4.5) faint.add(`${name}: ${ratio.toFixed(2)}`);
  }
  return [...faint];
}"""
