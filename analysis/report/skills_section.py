"""The skills section: timeline, usage funnel, uplift, captured rules and leaks."""

from collections.abc import Sequence

from hermes_lab.analysis.report import charts
from hermes_lab.analysis.report.findings import Findings, FromSuite
from hermes_lab.analysis.report.markup import Markup, element
from hermes_lab.analysis.report.sections import none, section, table
from hermes_lab.analysis.report.skillbook import SkillBook, SkillLine
from hermes_lab.analysis.report.words import NONE, interval, percent, points
from hermes_lab.analysis.skill_effects.capture import Capture
from hermes_lab.analysis.skill_effects.funnel import STAGES, Funnel
from hermes_lab.analysis.skill_effects.uplift import Uplift
from hermes_lab.analysis.stats.intervals import Rate
from hermes_lab.text.counted import counted

FIRST, MOST = 15, 200
"""Skills shown at once, and most skills listed."""
CELLS = 30
"""Cells of a timeline; longer runs have several rounds per cell."""


_EMPTIED = "As it was written. No later episode saw this text: each was given prose of the same length instead."


def skills(found: Findings, book: SkillBook) -> Markup:
    """The skills section."""
    lines = book.lines()
    timeline = _timeline(lines, book.rounds) if lines else none("No skill was written or loaded.")
    return section(
        "skills", "Skills", timeline,
        element("h3", "From eligible to solved"), _funnel(found),
        element("h3", "Uplift of each skill"), _uplift(found),
        element("h3", "Hidden rules captured by the library"), _capture(found),
        element("h3", "Leaks"), _leaks(found.from_suite),
    )  # fmt: skip


def _timeline(lines: Sequence[SkillLine], rounds: int) -> Markup:
    width = -(-rounds // CELLS)
    cell = "a round" if width == 1 else f"{width} rounds"
    left_out = f"; {len(lines) - MOST:,} more not shown" if len(lines) > MOST else ""
    told = f"Most loaded first{left_out}. One cell is {cell} of {rounds}; darker means loaded in more episodes."
    rows = [_row(line, rounds, width) for line in lines[:MOST]]
    first, rest = _table(rows[:FIRST]), Markup("")
    if rows[FIRST:]:
        rest = element("details", element("summary", f"{len(rows) - FIRST} more skills"), _table(rows[FIRST:]))
    return element("div", first, rest, element("p", told, class_="axis"))


def _table(rows: Sequence[Markup]) -> Markup:
    titles = ("skill", "arm", "written in round", "loaded, by round", "")
    head = element("tr", *(element("th", title, scope="col", class_="text") for title in titles))
    return element(
        "div", element("table", element("thead", head), element("tbody", *rows), class_="skills"), class_="scroll"
    )


def _row(line: SkillLine, rounds: int, width: int) -> Markup:
    cells = [sum(line.loaded[r] for r in range(at, at + width)) for at in range(0, rounds, width)]
    times = sorted(line.written)
    lanes = f"in {counted(len(line.lanes), 'lane')}"
    written = f"{times[0]}{f'–{times[-1]}' if len(times) > 1 else ''}, {lanes}" if times else "given"
    name: str = element("b", line.name, class_="mono")
    if line.text:
        told = element("p", _EMPTIED, class_="axis") if line.arm == "placebo" else Markup("")
        name = element("details", element("summary", name), told, element("pre", line.text))
    return element(
        "tr",
        element("th", name, scope="row", class_="text"),
        element("td", line.arm, class_="text"),
        element("td", written, class_="text"),
        element("td", charts.strip(cells, f"loaded in {line.loaded.total()} episodes"), class_="wide"),
        element("td", f"{line.loaded.total():,}"),
    )


_SEVERAL = "Only for single runs: see `hermes-lab skills effects RUN`."


def _funnel(found: Findings) -> Markup:
    if found.several:
        return none(_SEVERAL)
    funnels = found.funnels
    if not funnels:
        return none("Not measured: no episode had an eligible or loaded skill.")
    total: dict[str, list[Funnel]] = {}
    for funnel in funnels:
        total.setdefault(funnel.arm, []).append(funnel)
    rows = [
        (
            arm,
            *(_sum([getattr(each, stage) for each in all_]) for stage in (*STAGES, "astray")),
            _rates([f.with_it for f in all_]),
            _rates([f.without_it for f in all_]),
        )
        for arm, all_ in total.items()
    ]
    header = ("arm", *STAGES, "loaded off-task", "solved with it", "solved without it")
    note = (
        "Skill × episode, all skills of an arm. The agent chose what to load, so the last two columns are not a causal "
        "effect."
    )
    return element("div", table(header, rows), element("p", note, class_="axis"))


def _sum(counts: Sequence[int | None]) -> str:
    told = [count for count in counts if count is not None]
    return f"{sum(told):,}" if told else NONE


def _rates(rates: Sequence[Rate]) -> str:
    """`434/600 · 72 %`, without an interval: skills and rules of one lane, and episodes of one task, are alike."""
    whole = Rate(sum(r.successes for r in rates), sum(r.trials for r in rates))
    return f"{whole.successes:,}/{whole.trials:,} · {percent(whole.value)}" if whole.trials else NONE


def uplift_table(found: Sequence[Uplift]) -> Markup:
    """The table that `hermes-lab skills uplift` prints."""
    if not found:
        return none("Not measured: no task was judged on both sides yet.")
    rows = [
        (
            each.skill,
            str(each.world),
            f"{each.tasks:,}",
            f"{each.pairs:,}",
            f"{each.with_it.successes:,}",
            f"{each.without_it.successes:,}",
            f"{each.helped:,}",
            f"{each.harmed:,}",
            _change(each),
            f"{each.p_value:.2g}",
            f"{each.p_holm:.2g}",
            each.effect,
        )
        for each in found
    ]
    counts = ("tasks", "pairs", "solved with it", "without it", "helped", "harmed")
    header = ("skill", "world", *counts, "uplift in points (95 %)", "p", "p (Holm)", "effect")
    note = "p (Holm) is adjusted over all skills of the run; intervals are not adjusted."
    return element("div", table(header, rows), element("p", note, class_="axis"))


def _change(skill: Uplift) -> Markup:
    change = f"{points(skill.difference)} ({interval(skill.interval)})"
    return element("b", change) if skill.shown else element("span", change, class_="note")


def _uplift(found: Findings) -> Markup:
    if found.uplifts is None:
        return none("Not measured: run `hermes-lab skills uplift` for a leave-one-out ablation.")
    return element("p", "See the top of this page.")


def _capture(found: Findings) -> Markup:
    if found.several:
        return none(_SEVERAL)
    captures = found.from_suite.captures
    if not captures:
        return none("Not measured: needs a suite with known rules.")
    last: dict[str, Capture] = {each.lane: each for each in sorted(captures, key=lambda each: each.round)}
    arms: dict[str, list[Capture]] = {}
    for each in last.values():
        arms.setdefault(each.arm, []).append(each)
    rows = [
        (
            arm,
            _rates([c.precision for c in all_]),
            _rates([c.recall for c in all_]),
            _rates([c.recall_met for c in all_]),
            str(len(all_)),
        )
        for arm, all_ in arms.items()
    ]
    note = (
        "For each lane's last library: share of true claims; share of rules in force that are stated; and the same for "
        "rules the lane has met."
    )
    return element(
        "div",
        table(("arm", "precision", "recall", "recall of rules met", "lanes"), rows),
        element("p", note, class_="axis"),
    )


def _leaks(known: FromSuite) -> Markup:
    if known.leaks is None:
        return none(f"Not measured{f': {known.searched}' if known.searched else ''}.")
    lines = (
        element("ul", *(element("li", line) for line in known.leaks), class_="warnings") if known.leaks else Markup("")
    )
    return element("div", lines, element("p", f"{known.searched}; {len(known.leaks)} leaks found.", class_="axis"))
