"""The gate of a review: what it refuses to record, and when a new skill is a change to an old one."""

import pytest

from hermes_lab.config import SkillsConfig
from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.policy import objection, review_gate
from hermes_lab.skills.session import SkillSession
from hermes_lab.types import Skill, SkillEdit
from tasks.ledger.suite import LedgerSuite
from tasks.repair.suite import RepairSuite

AGAINST = {
    "a missing program": [
        "ripgrep is not installed.",
        "On this machine jq isn't installed, which is a pity.",
        "It ended with bash: sqlite3: command not found.",
        "ModuleNotFoundError: No module named 'pandas'.",
        "The module yaml cannot be imported.",
    ],
    "a missing credential": [
        "There is no API key.",
        "The access token is not set.",
        "Work with GitHub fails: missing credentials.",
        "The password was invalid.",
    ],
    "a passing failure": [
        "The request timed out.",
        "The API is overloaded.",
        "The connection was refused.",
        "It was rate limited.",
        "Downloads end with HTTP 503.",
        "The site is temporarily unavailable.",
    ],
    "that a tool does not work": [
        "The terminal tool does not work.",
        "web_search never works.",
        "The patch tool is broken; use write_file.",
        "The browser doesn't work here.",
        "Do not call execute_code: execute_code is useless.",
    ],
    "a one-off story": [
        "I tried three commands and the last one was right.",
        "The user asked for the total of May.",
        "In this session the file was moved.",
        "Today we added up the cleaning desk.",
        "First we ran the tests.",
    ],
}
FOR = [
    "If ripgrep is not installed, fall back to grep -rn.",
    "jq is not installed; use python3 -m json.tool instead.",
    "`No module named yaml`: run `pip install pyyaml`.",
    "ModuleNotFoundError: No module named 'yaml'.\n\n```bash\npip install pyyaml\n```",
    "## When ruff is not installed\n\nInstall it with uv.",
    "Without an API key every call answers 401: set MAPS_KEY first.",
    "When the request timed out, wait ten seconds and try again.",
    "HTTP 429 means too many requests. Wait as long as Retry-After says.",
    "The patch tool does not work on files with CRLF line ends.",
    "The sandbox has no network: take what is in vendor/.",
    "Tools that change files run alone.",
    "A missing token in the source is a syntax error.",
    "Add up the rows of today's export; leave out what was cancelled.",
    "The user of the report wants whole numbers.",
    "Never store passwords in the repository.",
    "Use -i in place of --in-place, which does not work on macOS.",
    '```\nraise SystemExit("command not found")\n```',
    "The service is described in docs/service.md.",
]


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in AGAINST.items() for text in texts])
def test_what_passes_or_is_no_rule_is_refused(kind: str, text: str) -> None:
    found = objection(f"Totals are sums.\n\n{text}\n\nRun: make total")
    assert found is not None
    assert (found.kind, found.sentence in text) == (kind, True)


@pytest.mark.parametrize("text", FOR)
def test_a_rule_and_a_remedy_are_let_pass(text: str) -> None:
    assert objection(text) is None


def test_every_rule_of_both_suites_is_let_pass() -> None:
    for suite in (LedgerSuite(), RepairSuite()):
        for split in suite.splits:
            for world in range(20):
                for skill in suite.known_skills(split=split, world=world).skills.values():
                    assert objection(skill.text) is None


def skill(name: str, description: str, body: str, **ours: str) -> Skill:
    return skill_format.parse(skill_format.render(name, description, body, **ours))


BODY = "The cleaning desk leaves refunds out of its totals.\n\nRun: ./ledger sum cleaning.csv --skip refunds"
CLEANING = skill("cleaning-totals", "How the cleaning desk's totals are made", BODY)
TWIN = SkillEdit("create", "cleaning-desk-totals", "How totals of the cleaning desk are made", f"{BODY}\n\nThen look.")


def session(*skills: Skill) -> SkillSession:
    return SkillSession(Library(skills), origin="review", episode="e", model="m", gate=review_gate(SkillsConfig()))


@pytest.mark.parametrize(
    "edit",
    [
        SkillEdit("create", "a", "How to search", "ripgrep is not installed."),
        SkillEdit("create", "a", "The terminal tool is broken.", "Do it."),
        SkillEdit("edit", CLEANING.name, content="The request timed out."),
        SkillEdit("patch", CLEANING.name, old_string="leaves", new_string="I tried: leaves"),
        SkillEdit("write_file", CLEANING.name, path="references/a.md", content="The user asked for May."),
    ],
)
def test_a_refused_write_changes_nothing_and_says_which_sentence(edit: SkillEdit) -> None:
    s = session(CLEANING)
    with pytest.raises(ToolError, match=r"not saved, since it records .*: '"):
        s.manage(edit)
    assert (s.writes, s.library.snapshot) == ([], Library([CLEANING]).snapshot)


def test_a_script_is_code_and_never_judged() -> None:
    script = 'raise SystemExit("jq: command not found")'
    session(CLEANING).manage(SkillEdit("write_file", CLEANING.name, path="scripts/a.py", content=script))


def test_what_stands_there_already_may_be_patched_away() -> None:
    bad = skill("tools", "Notes", "The terminal tool is broken. Use make.")
    session(bad).manage(SkillEdit("patch", "tools", old_string="The terminal tool is broken. ", new_string=""))


def test_a_twin_of_a_skill_becomes_an_edit_of_it() -> None:
    s = session(CLEANING, skill("fleet-hours", "When the fleet is serviced", "Every spring."))
    write = s.manage(TWIN)
    assert (write.action, write.name) == ("edit", "cleaning-totals")
    assert set(s.library.skills) == {"cleaning-totals", "fleet-hours"}
    assert "Then look." in s.library.skills["cleaning-totals"].text
    assert s.library.skills["cleaning-totals"].description == TWIN.description


def test_a_twin_that_is_a_whole_file_becomes_an_edit_too() -> None:
    whole = SkillEdit("create", TWIN.name, content=skill_format.render(TWIN.name, TWIN.description, TWIN.content))
    assert session(CLEANING).manage(whole).name == "cleaning-totals"


def test_a_twin_of_a_failing_skill_is_its_rewrite() -> None:
    s = session(skill_format.marked(CLEANING, state="deprecated"))
    s.manage(TWIN)
    assert list(s.library.listed) == ["cleaning-totals"]


@pytest.mark.parametrize("ours", [{"pinned": "true"}, {"state": "archived"}])
def test_a_pinned_or_archived_skill_is_let_be(ours: dict[str, str]) -> None:
    left = skill_format.marked(CLEANING, **ours)
    s = session(left)
    assert s.manage(TWIN).name == TWIN.name
    assert s.library.skills["cleaning-totals"] == left


def test_another_desks_rule_is_another_skill() -> None:
    for suite in (LedgerSuite(), RepairSuite()):
        for split in suite.splits:
            for world in range(8):
                s = session()
                known = suite.known_skills(split=split, world=world).skills.values()
                for each in known:
                    s.manage(SkillEdit("create", each.name, each.description, skill_format.body(each)))
                assert [write.action for write in s.writes] == ["create"] * len(known)


def test_a_likeness_under_the_bound_is_no_twin() -> None:
    near = SkillEdit("create", "canteen-totals", "How the canteen desk's totals are made", BODY.replace("ing", "teen"))
    assert session(CLEANING).manage(near).action == "create"
    lax = SkillSession(
        Library([CLEANING]),
        origin="review",
        episode="e",
        model="m",
        gate=review_gate(SkillsConfig(update_similarity=0.5)),
    )
    assert lax.manage(near).action == "edit"


def test_an_edit_that_is_no_skill_is_left_to_its_own_error() -> None:
    with pytest.raises(ToolError, match="description"):
        session(CLEANING).manage(SkillEdit("create", "a", "", "Body."))
    with pytest.raises(ToolError, match="exists"):
        session(CLEANING).manage(SkillEdit("create", CLEANING.name, CLEANING.description, BODY))
