"""The first screen: verdict, effect, cost, regressions and warnings."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import pandas as pd

from hermes_lab.analysis.comparison.decomposition import Effect, TwoByTwo
from hermes_lab.analysis.comparison.pairs import METRICS
from hermes_lab.analysis.comparison.verdict import ComparisonResult
from hermes_lab.analysis.report import charts
from hermes_lab.analysis.report.data import Losses, Sides, per_run
from hermes_lab.analysis.report.findings import Arm, Findings
from hermes_lab.analysis.report.markup import Markup, element, join
from hermes_lab.analysis.report.skills_section import uplift_table
from hermes_lab.analysis.report.words import duration, interval, number, percent, points
from hermes_lab.analysis.stats.intervals import Interval, Rate
from hermes_lab.analysis.summaries.warnings import ending

FIRST, FURTHER = 5, 3
"""Regressions listed for the verdict's part, and for each other part."""
_UNJUDGED = "Not measured: no episode was judged."


def first_screen(found: Findings, frame: pd.DataFrame, agents: Sequence[str] = ()) -> Markup:
    """The first section of the page. It quotes the verdict verbatim, as everywhere. `agents` are the programs that
    worked, a line each."""
    sentence, more = _headline(found.verdict)
    alone = found.sides is None and found.uplifts is None
    if alone and not found.several:
        sentence, more = _alone(found), "" if found.evaluations else found.verdict.sentence
    plan = found.verdict.comparison.registered if found.verdict.comparison else None
    said = [line for line in (more, *found.verdict.causes, *(plan.lines() if plan else ()), *agents) if line]
    if alone and found.several:
        said += [_rate_of(arm) for arm in found.arms]
    parts = [element("h1", _told(sentence), id="verdict-sentence"), _warnings(found.warnings)]
    if found.uplifts is not None:
        said.append("A run of `hermes-lab skills uplift`: the same tasks with a lane's library and without one skill")
        cards = [_card("Uplift of each skill, at the first submission", uplift_table(found.uplifts))]
    else:
        cards = [_effect(found), _cost(found), _regressions(found, frame)]
    if said:
        parts.append(element("ul", *(element("li", _told(line)) for line in said), class_="detail"))
    parts.append(element("div", *cards, class_="cards"))
    return element("section", *parts, id="verdict", aria_labelledby="verdict-sentence")


def _headline(said: ComparisonResult) -> tuple[str, str]:
    """The headline, and the text below it; for weights and skills the effects are kept together."""
    both = said.comparison.decomposition if said.comparison else None
    whole = both.sentence() if both else ""
    sentence, _, more = said.sentence.removeprefix(whole).partition("; ")
    return whole + sentence, more


def _rate_of(arm: Arm) -> str:
    """What one series of several runs did, where the runs are not compared."""
    if not arm.success.trials:
        return f"{arm.name}: not measured: no episode was judged"
    return f"{arm.name}: solved {percent(arm.success.value)} of {arm.success.trials:,} episodes at the first submission"


def _alone(found: Findings) -> str:
    """The headline of a single run without a comparison."""
    arm = found.arms[0]
    if not any(arm.success.trials for arm in found.arms):
        return "No verdict: no episode was judged"
    if found.evaluations:
        (content,) = found.evaluations.values()
        tasks, score = content["evaluation"]["tasks"]["all"], content["mean_score"]
        episodes = f"{arm.success.trials:,} episodes of " if arm.success.trials > tasks else ""
        mean = "" if abs(score - content["success_rate"]) < 1e-9 else f", mean score {score:.2f}"
        return f"Solved {percent(arm.success.value)} of {episodes}{tasks:,} tasks at the first submission{mean}"
    return f"No comparison: {arm.name} solved {percent(arm.success.value)} of {arm.success.trials:,} tasks"


def _told(line: str) -> str:
    """Formats a line as a sentence, with non-breaking per cent signs. A leading `p` is not capitalised."""
    first = line[:1] if line.startswith("p =") else line[:1].upper()
    return f"{first}{line[1:]}.".replace(" -> ", " → ").replace(" %", "\u00a0%")


def _effect(found: Findings) -> Markup:
    sides, said, report = found.sides, found.verdict, found.verdict.comparison
    if report is None or said.difference is None or said.interval is None or sides is None:
        bars = [
            charts.Bar(arm.name, arm.success.value, arm.success.interval, percent(arm.success.value))
            for arm in found.arms
            if arm.success.trials
        ]
        picture = charts.forest(bars, 0.0, 1.0) if bars else element("p", _UNJUDGED, class_="none")
        return _card("Solved at the first submission, %", picture)
    if report.decomposition:
        return _card("Effects", *_weights_and_skills(report.decomposition))
    headline = report.headline
    bar = charts.Bar("difference", said.difference, said.interval, _points(said.difference, said.interval))
    rates = _rates((sides.before_name, headline.before), (sides.after_name, headline.after))
    content = [rates, charts.effect(bar, said.shown), _axis(headline.metric, headline.part)]
    if headline.metric != "success":
        told = f"{METRICS['success'].capitalize()}: not measured, no episode was judged."
        content.append(element("p", told, class_="none"))
    return _card("Effect", *content)


def _weights_and_skills(both: TwoByTwo) -> list[Markup]:
    """The opposite cells and the effects between them; effects that are not significant say so."""
    weights, skills = both.weights_names, both.skills_names
    rates = _rates(
        (f"{weights[0]}, skills {skills[0]}", both.corners[0][0]),
        (f"{weights[1]}, skills {skills[1]}", both.corners[1][1]),
    )
    bars = [
        charts.Bar(
            name,
            effect.difference,
            effect.interval,
            _points(effect.difference, effect.interval) + ("" if effect.shown else ": not shown"),
        )
        for name, effect in _effects(both).items()
    ]
    reach = max(1.0, *(abs(end) for bar in bars if bar.interval for end in bar.interval))
    return [rates, charts.forest(bars, -reach, reach, 0.0), _axis("success", both.part)]


def _effects(both: TwoByTwo) -> dict[str, Effect]:
    """The effects to show; simple effects instead of main effects if the interaction is significant, or if one set of
    weights had no skills."""
    if both.unmeasured:
        names = {"both": "together", "weights": "weights", "skills_before": _OLD, "skills_after": _NEW}
        return {names[name]: effect for name, effect in both.measured.items()}
    together, interaction = {"together": both.both}, {"interaction": both.interaction}
    if not both.interaction.shown:
        return together | {"weights": both.weights, "skills": both.skills} | interaction
    return together | {_OLD: both.skills_before, _NEW: both.skills_after} | interaction


_OLD, _NEW = "skills, old weights", "skills, new weights"


def _points(difference: float, ends: Interval) -> str:
    return f"{points(difference)} ({interval(ends)})"


def _axis(metric: str, part: str) -> Markup:
    told = f"Difference in points (95 %), {METRICS[metric]}{f', {part}' if part else ''}"
    return element("p", told, class_="axis")


def _rates(before: tuple[str, Rate], after: tuple[str, Rate]) -> Markup:
    was, now = (element("span", f"{name} ", element("b", percent(rate.value))) for name, rate in (before, after))
    return element("p", was, element("span", " → ", class_="arrow"), now, class_="rates")


def _cost(found: Findings) -> Markup:
    """The cost of the compared sides."""
    if found.costs.empty:
        return _card(
            "Cost", element("p", "Not measured: only training tasks count as cost, and there are none.", class_="none")
        )
    titles = ("", "tokens / solved", "time / solved", "tokens", *(("of which reviews",) if found.learns else ()))
    head = element("tr", *(element("th", title, scope="col") for title in titles))
    rows = [
        element(
            "tr",
            element("th", row["series"], scope="row", class_="text"),
            element("td", number(row["tokens_per_solved"])),
            element("td", duration(row["seconds_per_solved"])),
            element("td", number(row["tokens"])),
            *((element("td", percent(row["review_tokens"] / row["tokens"])),) if found.learns else ()),
        )
        for row in _costs(found)
    ]
    told = ("Includes the reviews that write skills." if found.learns else "Includes failures.") + (
        "" if (found.costs["tokens"] > 0).any() else " Tokens not measured: the model reported no usage."
    )
    table = element("table", element("thead", head), element("tbody", *rows), class_="small")
    return _card("Cost", element("div", table, class_="scroll"), element("p", told, class_="axis"))


def _costs(found: Findings) -> list[pd.Series]:
    rows = {row["series"]: row for _, row in found.costs.iterrows()}
    return [rows[name] for name in found.compared if name in rows]


def _regressions(found: Findings, frame: pd.DataFrame) -> Markup:
    """Tasks solved by the side before but not by the side after, by compared part."""
    title, sides = "Worst regressions", found.sides
    if sides is None and found.evaluations:
        return _failures(found, frame)
    if sides is None:
        return _card(title, element("p", "Not measured: no pairs.", class_="none"))
    report = found.verdict.comparison
    if report and report.unmeasured:
        return _card(title, element("p", f"Not measured: {report.unmeasured}.", class_="none"))
    if not any(part.pairs for part in found.losses):
        return _card(title, element("p", _UNJUDGED, class_="none"))
    content = []
    for place, part in enumerate(found.losses):
        content.append(element("p", _summary(part, sides), class_="axis"))
        if part.worst:
            content.append(_list(part, frame, FURTHER if place else FIRST))
    if any(part.worst for part in found.losses):
        content.append(element("p", "Click a task to see both episodes side by side.", class_="axis"))
    return _card(title, *content)


def _failures(found: Findings, frame: pd.DataFrame) -> Markup:
    """Failed tasks of a plain run to look at first."""
    title = "Failures to look at first"
    rows_of = dict(per_run(frame))
    parts = []
    for name, content in found.evaluations.items():
        if found.several:
            parts.append(element("p", name.removesuffix(", "), class_="axis"))
        parts.append(_failures_of(content, frame, rows_of[name]))
    return _card(title, *parts)


def _failures_of(content: Mapping[str, Any], frame: pd.DataFrame, rows: pd.DataFrame) -> Markup:
    """Those of one run, whose episodes are the `rows` of the table."""
    failures = content["evaluation"]["failures"]
    if not failures:
        return element("p", "None." if content["scored"] else _UNJUDGED, class_="none")
    numbers = dict(zip(rows["key"], rows.index, strict=True))
    items = [
        element(
            "li",
            element("a", each["task"], href=link(frame, numbers[each["episode"]]), class_="mono"),
            element("span", f"solved {each['count']} of {each['of']}, {ending(each['stop_reason'])}", class_="note"),
        )
        for each in failures
    ]
    return element("ol", *items, class_="worst")


def _summary(part: Losses, sides: Sides) -> str:
    """The number of regressions in a part."""
    where = f"{part.part}: " if part.part else ""
    if not part.pairs:
        told = "not measured, no episode was judged"
    elif not part.solved:
        told = f"no regressions possible, {sides.before_name} solved 0 of {part.pairs:,} pairs"
    elif not part.worst:
        told = f"none, {sides.after_name} also solved all {part.solved:,} of {sides.before_name}, {part.pairs:,} pairs"
    else:
        told = f"{part.lost:,} of {part.solved:,} solved by {sides.before_name} but not by {sides.after_name}"
    return f"{where}{told}"


def _list(part: Losses, frame: pd.DataFrame, most: int) -> Markup:
    items = [
        element(
            "li",
            element("a", each.task, href=link(frame, each.before, each.after), class_="mono"),
            element(
                "span",
                f"lost in {each.lost} of {each.pairs}{', a skill was loaded' if each.loaded else ''}",
                class_="note",
            ),
        )
        for each in part.worst[:most]
    ]
    return element("ol", *items, class_="worst")


def link(frame: pd.DataFrame, left: int, right: int | None = None) -> str:
    """The page-internal link to an episode, or to two side by side, by row number."""
    numbers = {str(run): place for place, run in enumerate(dict.fromkeys(frame["run"]))}
    keys, run_of = frame["key"].tolist(), frame["run"].tolist()
    at = {"episode": keys[left], "run": numbers[run_of[left]]}
    if right is not None:
        at |= {"with": keys[right], "withrun": numbers[run_of[right]]}
    return f"#{urlencode(at)}"


def _warnings(lines: Sequence[str]) -> Markup:
    if not lines:
        return Markup("")
    return element("ul", *(element("li", line) for line in lines), class_="warnings", aria_label="Warnings")


def _card(title: str, *content: Markup) -> Markup:
    return element("div", element("h2", title), join(list(content)), class_="card")
