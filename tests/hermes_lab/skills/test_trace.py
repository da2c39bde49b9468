"""Outcome telemetry: eligible -> listed -> loaded -> followed."""

import json
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.trace import _Likeness, adherence, code_lines, traces
from hermes_lab.skills.library import Library
from hermes_lab.skills.placebo import placebo
from hermes_lab.tasks.registry import load_family
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import WorldSpec
from hermes_lab.types import Child, Message, Skill, SkillTrace, Task, ToolCall, ToolResult, Trajectory

RUN = "./ledger sum cleaning.csv --out answer.json --skip refunds"
SALES = Task(id="t", suite="s", prompt="Total cleaning.csv for the cleaning desk.", triggers=("cleaning:skip",))


def skill(name: str, description: str, body: str = f"Refunds do not count.\n\nRun: {RUN}") -> Skill:
    return skill_format.parse(skill_format.render(name, description, body))


CLEANING = skill("cleaning-totals", "How the cleaning desk's totals are made")
FLEET = skill("fleet-hours", "When the vehicles of the fleet are to be serviced")
LIBRARY = Library([CLEANING, FLEET])


def view(name: str, shown: str = "") -> tuple[str, dict[str, str], dict[str, str]]:
    return "skill_view", {"name": name}, {"name": shown or name, "content": "..."}


def did(*turns: tuple[str, dict[str, str], dict[str, str]]) -> Trajectory:
    messages = [Message("user", "Go.")]
    for name, arguments, answer in turns:
        call = ToolCall("c", name, dict(arguments))
        result = ToolResult("c", name, json.dumps(answer), ok="error" not in answer)
        messages += [Message("assistant", tool_calls=(call,)), Message("tool", result.content, results=(result,))]
    return Trajectory(tuple(messages), (), "native", "answered")


def ran(command: str) -> tuple[str, dict[str, str], dict[str, str]]:
    return "terminal", {"command": command}, {"output": ""}


def trace(
    trajectory: Trajectory,
    *loaded: str,
    library: Library = LIBRARY,
    task: Task = SALES,
    learnt_from: Mapping[str, tuple[str, ...]] | None = None,
    children: Sequence[Child] = (),
) -> dict[str, SkillTrace]:
    known = {"cleaning-totals": ("cleaning:skip",), "fleet-hours": ("fleet:x",)} if learnt_from is None else learnt_from
    rows = traces(library, tuple(library.listed), loaded, task, trajectory, known, children)
    assert [row.name for row in rows] == sorted(row.name for row in rows)
    return {row.name: row for row in rows}


def test_the_whole_chain() -> None:
    found = trace(did(view("cleaning-totals"), ran(RUN)), "cleaning-totals")
    assert found == {
        "cleaning-totals": SkillTrace(
            "cleaning-totals", eligible=True, by="trigger", listed=True, loaded=True, followed=True, adherence=1.0
        )
    }


def test_an_eligible_skill_that_nobody_loaded_has_a_row_and_one_of_another_rule_has_none() -> None:
    assert trace(did(ran(RUN))) == {
        "cleaning-totals": SkillTrace("cleaning-totals", eligible=True, by="trigger", listed=True)
    }


def test_a_task_without_a_rule_is_what_no_learnt_skill_is_about() -> None:
    plain = Task(id="t", suite="s", prompt=SALES.prompt)
    assert not trace(did(), task=plain)
    assert trace(did(view("fleet-hours")), "fleet-hours", task=plain)["fleet-hours"].eligible is False


def test_where_no_trigger_is_known_the_texts_decide() -> None:
    found = trace(did(), "fleet-hours", learnt_from={})
    assert (found["cleaning-totals"].eligible, found["cleaning-totals"].by) == (True, "similarity")
    assert (found["fleet-hours"].eligible, found["fleet-hours"].by) == (False, "similarity")


def test_where_nothing_tells_eligibility_is_unknown() -> None:
    wordless = Task(id="t", suite="s", prompt=" ")
    found = trace(did(), "fleet-hours", learnt_from={"fleet-hours": ()}, task=wordless)
    assert (found["fleet-hours"].eligible, found["fleet-hours"].by) == (None, "")


def test_unknown_is_told_from_not_eligible() -> None:
    wordless = Task(id="t", suite="s", prompt=" ", triggers=("cleaning:skip",))
    found = trace(did(), task=wordless, learnt_from={"cleaning-totals": ("another",)})
    assert found == {"fleet-hours": SkillTrace("fleet-hours", eligible=None, listed=True)}
    hidden = LIBRARY.with_skill(skill_format.marked(FLEET, state="deprecated"))
    assert trace(did(), task=wordless, library=hidden, learnt_from={"cleaning-totals": ("another",)}) == {}


def test_of_many_unknown_skills_the_most_alike_have_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    many = Library(skill(f"s-{n:02}", f"Number {n}") for n in range(50))
    likeness = {f"s-{n:02}": 0.34 - n % 7 / 100 for n in range(50)}
    given = {name: _Likeness(whole, 0.15) for name, whole in likeness.items()}
    monkeypatch.setattr("hermes_lab.skills.learning.trace._likeness", lambda skills, _: [given[s.name] for s in skills])
    found = trace(did(), "s-06", library=many, learnt_from={})
    assert len(found) == 21
    assert set(found) - {"s-06"} == set(sorted(set(likeness) - {"s-06"}, key=lambda name: (-likeness[name], name))[:20])


def test_the_prose_of_a_placebo_tells_nothing_of_what_it_is_about() -> None:
    empty = placebo(LIBRARY)
    walk = Task(id="t", suite="s", prompt="The path along the river is pleasant in every season.")
    found = trace(did(), "fleet-hours", library=empty, task=walk, learnt_from={})
    assert {(row.eligible, row.by) for row in found.values()} == {(None, "")}
    assert set(found) == set(LIBRARY.skills)
    assert trace(did(), library=empty)["cleaning-totals"].by == "trigger"


def test_a_child_follows_what_it_loaded_and_not_what_another_did() -> None:
    def child(*turns: tuple[str, dict[str, str], dict[str, str]], children: tuple[Child, ...] = ()) -> Child:
        return Child("Do.", 1, did(*turns), children=children)

    look, work = view("cleaning-totals"), ran(RUN)
    assert trace(did(), CLEANING.name, children=[child(look, work)])[CLEANING.name].followed
    assert trace(did(), CLEANING.name, children=[child(children=(child(look, work),))])[CLEANING.name].adherence == 1.0
    assert trace(did(), CLEANING.name, children=[child(work, look)])[CLEANING.name].followed is False
    assert trace(did(work), CLEANING.name, children=[child(look)])[CLEANING.name].followed is False
    assert trace(did(), CLEANING.name, children=[Child("Do.", 1)])[CLEANING.name].followed is False


def test_a_call_of_a_compiled_skills_tool_is_following_it() -> None:
    made = skill_format.marked(skill("make-mark", "Make a mark", "A tool."), compiled="make_mark")
    library = LIBRARY.with_skill(made)
    call = ("make_mark", {"path": "x"}, {"result": 1})
    assert trace(did(call), "make-mark", library=library)["make-mark"].followed is True
    row = trace(did(), "make-mark", library=library, children=[Child("Do.", 1, did(call))])["make-mark"]
    assert (row.followed, row.adherence) == (True, 1.0)
    assert trace(did(view("make-mark")), "make-mark", library=library)["make-mark"].followed is False


def test_a_hidden_skill_is_eligible_and_not_listed() -> None:
    library = LIBRARY.with_skill(skill_format.marked(CLEANING, state="deprecated"))
    assert trace(did(), library=library)["cleaning-totals"].listed is False


def test_only_calls_after_the_load_follow() -> None:
    assert trace(did(ran(RUN), view("cleaning-totals")), "cleaning-totals")["cleaning-totals"].followed is False
    assert trace(did(view("fleet-hours"), ran(RUN)), "cleaning-totals")["cleaning-totals"].followed  # /cleaning-totals


def test_a_call_of_the_turn_that_loads_does_not_follow() -> None:
    load, run = (ToolCall("a", "skill_view", {"name": CLEANING.name}), ToolCall("b", "terminal", {"command": RUN}))
    shown = ToolResult("a", "skill_view", json.dumps({"name": CLEANING.name}))
    messages = (
        Message("assistant", tool_calls=(load, run)),
        Message("user", results=(shown, ToolResult("b", "terminal", "{}"))),
    )
    found = trace(Trajectory(messages, (), "hermes", "answered"), CLEANING.name)
    assert found[CLEANING.name].followed is False


def test_a_file_of_a_skill_is_no_load() -> None:
    name, arguments, answer = view("cleaning-totals")
    found = trace(did((name, arguments, answer | {"path": "references/x.md"}), ran(RUN), view("cleaning-totals")), name)
    assert CLEANING.name not in found or not found[CLEANING.name].loaded
    late = did((name, arguments, answer | {"path": "references/x.md"}), ran(RUN), view("cleaning-totals"))
    assert trace(late, "cleaning-totals")["cleaning-totals"].followed is False  # the run came before the load


def test_a_near_miss_of_a_name_loads_what_was_shown() -> None:
    found = trace(did(ran(RUN), view("cleaning-total", shown="cleaning-totals")), "cleaning-totals")
    assert found["cleaning-totals"].followed is False


def test_a_skill_of_this_very_episode_was_loaded_and_no_more_is_known() -> None:
    assert trace(did(view("fresh")), "fresh")["fresh"] == SkillTrace("fresh", loaded=True)


def test_writing_a_skill_down_is_not_following_it() -> None:
    again = ("skill_manage", {"action": "edit", "name": "x", "content": RUN}, {"name": "x"})
    assert trace(did(view("cleaning-totals"), again), "cleaning-totals")["cleaning-totals"].followed is False


def test_an_empty_library_has_no_traces() -> None:
    assert traces(Library(), (), (), SALES, did(ran(RUN)), {}) == ()


def of(body: str, *commands: str) -> float | None:
    from hermes_lab.skills.learning.observe import done

    return adherence(body, list(done(did(*map(ran, commands)).messages)))


@pytest.mark.parametrize(
    ("body", "command", "share"),
    [
        (f"Run: {RUN}", RUN, 1.0),
        (f"Run: {RUN}", RUN.removesuffix(" --skip refunds"), 0.0),  # the naive way
        ("Run: ./ledger sum <file> --rate {rate}", "./ledger sum a.csv --rate 3", 1.0),
        ("Run: `make`", "make", 1.0),
        ("```bash\n# first\ncd src\nmake  # all\nmake test\n```", "cd src && make test", 1.0),
        ("```bash\ncd src\nmake test\n```", "make test", 0.5),
        ("~~~\nmake test\n~~~\nAlso `git pull` and `make`.", "git pull", 0.5),
        ("Say `--skip refunds` always.", "./ledger --skip=refunds", 1.0),
        (f"Run ./ledger sum with --skip refunds:\n\n{RUN}\n", RUN, 1.0),
        (f"Run ./ledger sum with --skip refunds:\n\n  {RUN}\n", RUN.removesuffix(" --skip refunds"), 0.0),
        ("Look at ./ledger, and be careful.", "./ledger", None),
        ("Be careful with `names`.", "names", None),
        ("Only prose.", "ls", None),
        ("```\n}\nelse:\n```", "else:", None),
    ],
)
def test_adherence_is_the_share_of_lines_that_a_call_did(body: str, command: str, share: float | None) -> None:
    assert of(body, command) == share


def test_code_in_a_file_that_was_written_is_code_that_was_followed() -> None:
    body = "```python\nreturn sorted(rows, key=amount)\n```"
    turn = ("write_file", {"path": "a.py", "content": "def f(rows):\n    return sorted(rows, key=amount)\n"}, {})
    assert trace(did(view("x"), turn), "x", library=Library([skill("x", "d", body)]))["x"].adherence == 1.0


def test_a_line_must_be_done_by_one_call() -> None:
    assert of("Run: git push --tags", "git push", "ls --tags") == 0.0


@given(st.text(max_size=300))
def test_any_body_has_lines_that_its_own_text_does(body: str) -> None:
    lines = code_lines(body)
    share = of(body, body)
    assert (share is None) == (not lines)
    assert share in (None, 1.0)


@pytest.mark.parametrize(
    ("family", "precision", "recall"),
    [("ledger", 0.9, 0.95), ("repair", 0.9, 0.95), ("seats", 0.9, 0.95), ("services", 0.9, 0.95)],
)
def test_similarity_tells_what_a_skill_is_about_in_worlds_that_its_threshold_was_not_chosen_on(
    family: str, precision: float, recall: float
) -> None:
    """The figures of docs/learning.md: a skill is about the tasks that trigger its rule, and no others."""
    suite = WorldSuite(family, (load_family(family),), WorldSpec())
    true = claimed = about = missed = denied = 0
    for split in suite.splits:
        for world in range(200, 206):
            library = suite.known_skills(split=split, world=world)
            for task in suite.load(split=split, count=25, seed=1, world=world):
                place = task.metadata["place"]
                rows = {row.name: row for row in traces(library, (), tuple(library.skills), task, did(), {})}
                for name, row in rows.items():
                    is_about = bool(task.triggers) and name.startswith(f"{place}-")
                    about += is_about
                    claimed += row.eligible is True
                    true += is_about and row.eligible is True
                    denied += row.eligible is False
                    missed += is_about and row.eligible is False
    print(f"precision {true / claimed:.3f} recall {true / about:.3f} wrongly denied {missed / denied:.4f} of {denied}")
    assert true / claimed >= precision
    assert true / about >= recall
    assert missed / denied < 0.02
