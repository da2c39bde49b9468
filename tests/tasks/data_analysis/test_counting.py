"""Logs, joins and loggers: what each convention does, in the harness and by a script in a real workspace."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import combinations
from typing import Any

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.tasks.data_analysis import event_logs, joins, sensors
from hermes_lab.tasks.data_analysis._counting import write_script
from hermes_lab.tasks.data_analysis._figures import Number, Table, Text, judge_figures
from hermes_lab.tasks.data_analysis.event_logs.log import Visit
from hermes_lab.tasks.data_analysis.joins.tables import Books, Customer, Record, Sale
from hermes_lab.tasks.data_analysis.sensors.export import TIMES, Reading, write_time
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Criterion, Entity, Rule, TaskInstance, draw_rule
from hermes_lab.tasks.names import NAMES
from hermes_lab.tasks.play import play
from hermes_lab.tasks.registry import load_family
from hermes_lab.tasks.rules import strategy_of
from hermes_lab.types import Task

OpenSandbox = Callable[[], Sandbox]
MODULES = {"event_logs": event_logs, "joins": joins, "sensors": sensors}
FAMILIES: dict[str, Any] = {name: module.FAMILY for name, module in MODULES.items()}


def draw_scene(family: str, key: object, split: str = "heldout") -> tuple[Any, Any]:
    draws = Draws("counting", family, split, key)
    name = draws.choice(NAMES[split])
    entity = Entity(name.word, name.about, split)
    site_config = FAMILIES[family].site_config(entity, "", draws)
    return site_config, FAMILIES[family].instance(entity, site_config, draws)


def some_rules(family: str, site_config: object, key: object, each: int) -> list[Rule]:
    """Some of every type, all of them different."""
    types = FAMILIES[family].rules.items()
    rules = [draw_rule(name, kind, Draws(key, name, n), site_config) for name, kind in types for n in range(each)]
    return list({rule.instruction: rule for rule in rules}.values())


def figures_of(family: str, instance: Any, rule: Rule | None) -> object:
    way: Any = strategy_of(MODULES[family].CONVENTIONS, rule, MODULES[family].PLAIN)  # type: ignore[attr-defined]
    if family == "event_logs":
        return way.days(instance.visits), way.visits(instance.visits)
    return (
        way.count(instance.books) if family == "joins" else way.statistics(instance.readings, instance.site_config.form)
    )


@pytest.mark.parametrize("family", [*FAMILIES, "ledger"])
def test_every_clause_tells_its_rule_alone(family: str) -> None:
    of_family = load_family(family)
    for split in NAMES:
        for key in range(5):
            draws = Draws("clauses", family, split, key)
            name = draws.choice(NAMES[split])
            site_config = of_family.site_config(Entity(name.word, name.about, split), "", draws)
            drawn = [
                draw_rule(kind, each, draws, site_config) for kind, each in of_family.rules.items() for _ in range(8)
            ]
            rules = {rule.instruction: rule for rule in drawn}.values()
            for rule in rules:
                for paraphrase in rule.paraphrases:
                    assert [each.instruction for each in rules if each.stated_in(paraphrase)] == [rule.instruction]


def test_no_column_has_the_name_of_what_rules_call_money() -> None:
    for words in FAMILIES["joins"].words.values():
        assert not {"amount", "money"} & {*words.quantity, *words.price, *words.units}


@pytest.mark.parametrize("family", [*FAMILIES, "ledger"])
def test_prompts_name_files_in_their_case_and_looks_show_the_columns(family: str) -> None:
    """Also where the prompt begins with the file."""
    begins = 0
    for key in range(60):
        draws = Draws("names", family, key)
        name = draws.choice(NAMES["train"])
        entity = Entity(name.word, name.about, "train", "far")
        instance = load_family(family).instance(entity, load_family(family).site_config(entity, "", draws), draws)
        named = next(
            path for path in reversed(instance.inputs) if path.split("/")[0].lower() in instance.request.lower()
        )
        start = named.split("/")[0]
        assert start.capitalize() not in instance.request
        begins += instance.request.startswith(start)
        shown = " ".join(action.arguments["command"] for action in load_family(family).explore(instance))
        assert all(path in shown for path in instance.inputs)
    assert begins


@pytest.mark.parametrize("family", FAMILIES)
def test_each_rule_gives_figures_of_its_own_on_every_scene(family: str) -> None:
    for split in NAMES:
        for key in range(20):
            site_config, instance = draw_scene(family, key, split)
            rules: list[Rule | None] = [None, *some_rules(family, site_config, key, each=2)]
            figures = [figures_of(family, instance, rule) for rule in rules]
            same = [(a, b) for (a, one), (b, two) in combinations(zip(rules, figures, strict=True), 2) if one == two]
            assert same == []


@pytest.mark.anyio
@pytest.mark.parametrize("family", FAMILIES)
async def test_a_script_for_a_rule_is_right_where_it_holds_and_nowhere_else(
    family: str, open_sandbox: OpenSandbox
) -> None:
    """The script reads the files, the harness what they were drawn from."""
    site_config, instance = draw_scene(family, "script")
    task = Task(id="1", suite=family, prompt=instance.request, domain="", split="", world=0, files=instance.files)
    beliefs: list[Rule | None] = [None, *some_rules(family, site_config, "script", each=1)]
    async with open_sandbox() as sandbox:
        for path, text in instance.files.items():
            await sandbox.write(path, text.encode())
        for belief in beliefs:
            (result,) = await play(FAMILIES[family].solve(instance, belief), task, sandbox)
            assert '"exit_code": 0' in result.content
            found = [await FAMILIES[family].judge(instance, rule, sandbox, None) for rule in beliefs]
            right = [rule for rule, each in zip(beliefs, found, strict=True) if all(c.score == 1.0 for c in each)]
            assert right == [belief]
            assert all(c.score == 1.0 for each in found for c in each if not c.ruled)


def _words(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _words(each)


@pytest.mark.parametrize("family", FAMILIES)
def test_splits_share_no_word_of_columns_and_cells(family: str) -> None:
    found = {}
    for split, words in FAMILIES[family].words.items():
        found[split] = {word for value in vars(words).values() for word in _words(value)}
        assert len(found[split]) >= 20
    for one, other in combinations(found.values(), 2):
        assert not one & other


# Small cases, counted by hand


def literal_rule(family: str, kind: str, **literals: object) -> Rule:
    assert kind in FAMILIES[family].rules
    return Rule(kind, (), "", tuple(literals.items()))


def visits() -> list[Visit]:
    """Three visits around a midnight of summer time."""
    rows = [("2025-06-30T23:30:00", 100, "A1", "4100"), ("2025-07-01T00:10:00", 20, "A2", "7000")]
    rows += [("2025-07-01T00:12:30", 601, "A1", "7000")]
    return [
        Visit(
            datetime.fromisoformat(at), secs, {"ticket": ticket, "card": card, "lane": "red" if secs > 99 else "blue"}
        )
        for at, secs, ticket, card in rows
    ]


@pytest.mark.parametrize(
    ("rule", "days", "count"),
    [
        (None, {"2025-06-30": 100, "2025-07-01": 621}, 3),
        (literal_rule("event_logs", "clock", hours=2), {"2025-07-01": 721}, 3),
        (literal_rule("event_logs", "dawn", hours=4), {"2025-06-30": 721}, 3),
        (literal_rule("event_logs", "zone", zone="Pacific/Auckland"), {"2025-07-01": 721}, 3),
        (literal_rule("event_logs", "zone", zone="America/Anchorage"), {"2025-06-30": 721}, 3),
        (literal_rule("event_logs", "drop", column="lane", value="red"), {"2025-07-01": 20}, 1),
        (literal_rule("event_logs", "series", column="card", digits="70"), {"2025-06-30": 100}, 1),
        (literal_rule("event_logs", "replaced", column="ticket", which="last"), {"2025-07-01": 621}, 2),
        (
            literal_rule("event_logs", "replaced", column="ticket", which="first"),
            {"2025-06-30": 100, "2025-07-01": 20},
            2,
        ),
        (literal_rule("event_logs", "once", column="card", which="first"), {"2025-06-30": 100, "2025-07-01": 20}, 2),
        (literal_rule("event_logs", "once", column="card", which="last"), {"2025-06-30": 100, "2025-07-01": 601}, 2),
        (literal_rule("event_logs", "started", number=60), {"2025-06-30": 120, "2025-07-01": 720}, 3),
        (literal_rule("event_logs", "short", number=100), {"2025-06-30": 100, "2025-07-01": 601}, 2),
        (
            literal_rule("event_logs", "unit", column="lane", value="blue", factor=60),
            {"2025-06-30": 100, "2025-07-01": 1801},
            3,
        ),
        (literal_rule("event_logs", "dates", form="DD.MM.YYYY"), {"30.06.2025": 100, "01.07.2025": 621}, 3),
        (literal_rule("event_logs", "mark", prefix="K4-"), {"K4-2025-06-30": 100, "K4-2025-07-01": 621}, 3),
        (literal_rule("event_logs", "returns", column="card", minutes=3), {"2025-06-30": 100, "2025-07-01": 20}, 2),
        (literal_rule("event_logs", "returns", column="card", minutes=2), {"2025-06-30": 100, "2025-07-01": 621}, 3),
        (literal_rule("event_logs", "slow", column="lane", value="red", hours=1), {"2025-07-01": 721}, 3),
        (literal_rule("event_logs", "most", number=600), {"2025-06-30": 100, "2025-07-01": 620}, 3),
    ],
    ids=lambda value: value.type if isinstance(value, Rule) else "",
)
def test_days_of_a_small_log(rule: Rule | None, days: dict[str, float], count: int) -> None:
    way = strategy_of(event_logs.CONVENTIONS, rule, event_logs.PLAIN)
    assert (way.days(visits()), way.visits(visits())) == (days, count)


BOOKS = Books(
    sales=(
        Sale("2025-03-04", "11050", "1", 2),
        Sale("2025-03-25", "11050", "2", 5),
        Sale("2025-03-26", "22061", "3", 1),
    ),
    articles={
        "11050": (Record("2024-01-01", Decimal("1.01"), 6), Record("2025-03-10", Decimal("2.03"), 6)),
        "22061": (Record("2024-02-01", Decimal("10.01"), 4),),
    },
    customers={
        "1": Customer("1", "Ann", "gold", "2", (("7", 70), ("8", 30))),
        "2": Customer("2", "Bea", "iron", "", (("9", 100),)),
        "3": Customer("3", "Cem", "iron", "", (("8", 100),)),
    },
)


@pytest.mark.parametrize(
    ("rule", "totals", "units"),
    [
        (None, {"7": 4.06, "8": 14.07, "9": 10.15}, 8),
        (literal_rule("joins", "dated"), {"7": 2.02, "8": 12.03, "9": 10.15}, 8),
        (literal_rule("joins", "oldest"), {"7": 2.02, "8": 12.03, "9": 5.05}, 8),
        (literal_rule("joins", "pack"), {"7": 24.36, "8": 64.4, "9": 60.9}, 46),
        (literal_rule("joins", "merged"), {"8": 10.01, "9": 14.21}, 8),
        (literal_rule("joins", "drop", value="iron"), {"7": 4.06, "8": 4.06}, 2),
        (literal_rule("joins", "rate", value="gold", percent=50), {"7": 2.03, "8": 12.04, "9": 10.15}, 8),
        (literal_rule("joins", "series", digits="11"), {"8": 10.01}, 1),
        (literal_rule("joins", "shared"), {"7": 2.842, "8": 11.228, "9": 10.15}, 8),
        (literal_rule("joins", "equal"), {"7": 2.03, "8": 12.04, "9": 10.15}, 8),
        (literal_rule("joins", "digits", width=3), {"007": 4.06, "008": 14.07, "009": 10.15}, 8),
        (literal_rule("joins", "letter", prefix="G-"), {"G-7": 4.06, "G-8": 14.07, "G-9": 10.15}, 8),
        (literal_rule("joins", "money", times="100"), {"7": 406, "8": 1407, "9": 1015}, 8),
        (literal_rule("joins", "round", step=2), {"7": 4, "8": 14, "9": 10}, 8),
        (literal_rule("joins", "closing", number=25), {"7": 4.06, "8": 4.06}, 2),
        (literal_rule("joins", "samples", number=2), {"7": 4.06, "8": 4.06, "9": 10.15}, 7),
    ],
    ids=lambda value: value.type if isinstance(value, Rule) else "",
)
def test_totals_of_small_books(rule: Rule | None, totals: dict[str, float], units: int) -> None:
    found, subtasks = strategy_of(joins.CONVENTIONS, rule, joins.PLAIN).count(BOOKS)
    assert (found, subtasks) == (pytest.approx(totals, abs=1e-9), units)


def readings() -> list[Reading]:
    """Two probes over two hours, with an upgrade from 2.9 to 2.10."""
    rows = [
        ("7", "20.0", "2.9"),
        ("8", "30.0", "2.9"),
        ("7", "24.0", "2.9"),
        ("8", "12.0", "2.10"),
        ("7", "22.0", "2.10"),
    ]
    return [
        Reading(
            datetime(2025, 3, 4, 23, 5) + timedelta(minutes=15 * n),
            probe,
            Decimal(value),
            firmware,
            "raw" if n == 2 else "good",
            {"zero": Decimal("0.5"), "span": Decimal(n + 1)},
        )
        for n, (probe, value, firmware) in enumerate(rows)
    ]


FIRST, THIRD = "2025-03-04 23:20", "2025-03-04 23:35"


@pytest.mark.parametrize(
    ("rule", "means", "count", "peak"),
    [
        (None, {"7": 22, "8": 21}, 5, FIRST),
        (literal_rule("sensors", "filler", odd="30.0"), {"7": 22, "8": 12}, 4, THIRD),
        (literal_rule("sensors", "upgrade", release="2.10", factor=10), {"7": 46.2 / 3, "8": 15.6}, 5, FIRST),
        (literal_rule("sensors", "bias", probe="8", number="2.5"), {"7": 22, "8": 18.5}, 5, FIRST),
        (literal_rule("sensors", "drop", value="raw"), {"7": 21, "8": 21}, 4, FIRST),
        (literal_rule("sensors", "less", column="zero"), {"7": 21.5, "8": 20.5}, 5, FIRST),
        (literal_rule("sensors", "warm", number=1), {"7": 23, "8": 12}, 3, THIRD),
        (literal_rule("sensors", "floor", number=18), {"7": 22, "8": 24}, 5, FIRST),
        (literal_rule("sensors", "digits", width=3), {"007": 22, "008": 21}, 5, FIRST),
        (literal_rule("sensors", "letter", prefix="T-"), {"T-7": 22, "T-8": 21}, 5, FIRST),
        (literal_rule("sensors", "stamp", form="YYYYMMDD HHMM"), {"7": 22, "8": 21}, 5, "20250304 2320"),
        (literal_rule("sensors", "begin", minutes=30), {"7": 22, "8": 21}, 5, "2025-03-04 22:50"),
        (literal_rule("sensors", "weighed", span="span"), {"7": 202 / 9, "8": 18}, 5, FIRST),
        (literal_rule("sensors", "hourly", which="last"), {"7": 23, "8": 12}, 3, THIRD),
        (literal_rule("sensors", "hourly", which="first"), {"7": 21, "8": 30}, 3, FIRST),
    ],
    ids=lambda value: value.type if isinstance(value, Rule) else "",
)
def test_statistics_of_a_small_export(rule: Rule | None, means: dict[str, float], count: int, peak: str) -> None:
    found = strategy_of(sensors.CONVENTIONS, rule, sensors.PLAIN).statistics(readings(), "YYYY-MM-DD HH:MM")
    assert dict(found.means) == pytest.approx(means)
    assert (found.count, found.peaks) == (count, {peak})


def test_of_equal_extremes_any_may_be_left_out() -> None:
    again = readings()[0]._replace(at=datetime(2025, 3, 5, 9, 0))
    three = [readings()[0]._replace(value=Decimal(value)) for value in (1, 40)]
    trimmed = literal_rule("sensors", "trim", number=1)
    two = [again._replace(value=Decimal(40))]
    found = strategy_of(sensors.CONVENTIONS, trimmed, sensors.PLAIN).statistics([*three, *two], "YYYY-MM-DD HH:MM")
    assert (dict(found.means), found.count) == ({"7": 40.0}, 1)
    assert found.peaks == {"2025-03-04 23:05", "2025-03-05 09:00"}


@pytest.mark.parametrize(("form", "code"), TIMES.items())
def test_a_form_of_times_says_the_same_to_people_and_to_python(form: str, code: str) -> None:
    at = datetime(2025, 3, 4, 9, 5)
    assert write_time(at, form) == at.strftime(code)


# The judge of figures

SCENE = TaskInstance(request="", files={"data.csv": "1\n"}, inputs=("data.csv",), outputs=("answer.json",))
FIGURES = (
    Table("table", "sums", {"a": 1.0, "b": 2.5}, 0.005),
    Number("number", "n", 3),
    Text("text", "at", frozenset(("early", "late"))),
)
RIGHT = {"sums": {"a": 1.0, "b": 2.5}, "n": 3, "at": "late"}


async def criteria(open_sandbox: OpenSandbox, *answers: object) -> list[dict[str, Criterion]]:
    found = []
    async with open_sandbox() as sandbox:
        await sandbox.write("data.csv", b"1\n")
        for answer in answers:
            await sandbox.write("answer.json", json.dumps(answer).encode())
            found.append({each.name: each for each in await judge_figures(SCENE, sandbox, FIGURES)})
    return found


@pytest.mark.anyio
async def test_right_figures_score_in_full_whatever_else_is_told(open_sandbox: OpenSandbox) -> None:
    others = ({"n": 3.0}, {"at": "early"}, {"sums": {"b": 2.505, "a": 0.995}}, {"remark": "checked twice"})
    for found in await criteria(open_sandbox, RIGHT, *({**RIGHT, **other} for other in others)):
        assert all(each.score == 1.0 and each.reason == "" for each in found.values())


@pytest.mark.anyio
async def test_wrong_figures_are_named_and_not_told(open_sandbox: OpenSandbox) -> None:
    wrong = {"sums": {"a": 1.0, "b": 2.51, "c": 0, "d": 0}, "n": 4, "at": "noon"}
    (found,) = await criteria(open_sandbox, wrong)
    assert {name: each.score for name, each in found.items() if each.ruled} == {"table": 0.25, "number": 0, "text": 0}
    assert [each.reason for each in found.values() if each.ruled] == [f"`{k}` is wrong" for k in ("sums", "n", "at")]
    assert all(each.score == 1.0 for each in found.values() if not each.ruled)


@pytest.mark.anyio
async def test_figures_of_a_wrong_form_fail_the_schema_and_earn_nothing(open_sandbox: OpenSandbox) -> None:
    misfits: tuple[tuple[str, str, object], ...] = (
        *(("table", "sums", value) for value in ({}, [], {"a": "1"}, {"a": True}, {"a": [1]}, 1, None)),
        *(("number", "n", value) for value in ("3", True, None, [3], {"n": 3}, 10**400)),
        *(("text", "at", value) for value in ("", None, 3, ["late"])),
    )
    answers = [{**RIGHT, key: value} for _, key, value in misfits]
    for (name, key, _), found in zip(misfits, await criteria(open_sandbox, *answers), strict=True):
        assert (found["schema"].score, found[name].score) == (0.0, 0.0)
        assert found["schema"].reason.startswith(f"answer.json needs `{key}`, a")
    for found in await criteria(open_sandbox, [], 3, None, {}):
        assert found["schema"].score == 0.0


def test_a_slot_keeps_its_place_and_an_empty_one_leaves_no_line() -> None:
    script = write_script(
        "for x in y:\n    <body>\n    <none>\nprint(<what>)", {"body": "a\nb", "none": "", "what": "z"}
    )
    assert script == "python3 - <<'EOF'\nfor x in y:\n    a\n    b\nprint(z)\nEOF"
