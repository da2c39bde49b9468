"""The gate of a review: what it refuses to record, and when a new skill is a change to an old one."""

import resource
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from fakes import killable

from hermes_lab.config.schema import SkillsConfig
from hermes_lab.errors import ToolError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.learning.review_policy import review_gate
from hermes_lab.skills.learning.write_policy import objection
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import SkillSession
from hermes_lab.tasks.registry import domains, load_family
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.tasks.worlds import WorldSpec
from hermes_lab.types import Skill, SkillEdit

CORPUS = Path(__file__).parent / "policy_corpus"
FAMILIES = [family for families in domains().values() for family in families]


class Sample(NamedTuple):
    kind: str
    text: str


def samples(name: str) -> list[Sample]:
    """A text a line, `\\n` being a line break; in the forbidden ones `# kind` says what the lines after it record."""
    found, kind = [], ""
    for line in (CORPUS / f"{name}.txt").read_text().splitlines():
        if line.startswith("# "):
            kind = line[2:]
        else:
            found.append(Sample(kind, line.replace("\\n", "\n")))
    return found


def refused(text: str) -> str:
    """The kind of what is refused in a skill that says `text`, or ""."""
    found = objection(f"Totals are sums.\n\n{text}\n\nRun: make total")
    assert found is None or found.sentence in text
    return found.kind if found else ""


def test_the_corpora_are_as_large_as_promised_and_hold_no_text_twice() -> None:
    for side in ("forbidden", "harmless"):
        tuned, unseen = samples(f"{side}_tuned"), samples(f"{side}_unseen")
        assert len(tuned) >= 60
        assert len(unseen) >= 40
        assert len({sample.text for sample in tuned + unseen}) == len(tuned) + len(unseen)


@pytest.mark.parametrize(
    ("name", "at_least", "at_most"),
    [
        ("forbidden_tuned", 0.99, 1.0),
        ("harmless_tuned", 0.0, 0.0),
        ("forbidden_unseen", 0.5, 1.0),
        ("harmless_unseen", 0.0, 0.1),
    ],
)
def test_rates_of_refusal(name: str, at_least: float, at_most: float) -> None:
    """The figures of docs/learning.md. No pattern was written, or changed, for an unseen text."""
    texts = samples(name)
    rate = sum(bool(refused(sample.text)) for sample in texts) / len(texts)
    print(f"{name}: {rate:.2f} of {len(texts)} refused")
    assert at_least <= rate <= at_most


def test_a_refusal_names_its_kind() -> None:
    told = [(sample.kind, refused(sample.text)) for sample in samples("forbidden_tuned")]
    assert sum(kind == said for kind, said in told if said) >= 0.98 * len(told)


@pytest.mark.parametrize("path", ["references/notes.rst", "references/NOTES", "assets/notes.text", "scripts/README.md"])
def test_notes_are_judged_whatever_their_file_is_called(path: str) -> None:
    with pytest.raises(ToolError, match="a missing program"):
        session(CLEANING).manage(SkillEdit("write_file", CLEANING.name, path=path, content="jq is not installed."))


def test_a_condition_or_a_remedy_stands_near_its_claim() -> None:
    """So that a sentence of many claims is not searched as a whole for each."""
    for far, kind in (("so " * 300, ""), ("so " * 400, "a missing credential")):
        for told in (f"Permission denied {far} if unset", f"When unset {far} permission denied"):
            assert refused(told) == kind


def judge(text: str) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (4, 4))
    objection(text)


@pytest.mark.parametrize(
    "piece", ["a", "a.b-", "tool ", "web_search ", "KEY", "API_KEY_", "I was ", "first attempt ", "permission denied "]
)
def test_no_text_takes_long_to_judge(piece: str) -> None:
    """A pattern that backtracks takes half a minute for some of these; the limit is CPU seconds."""
    process = killable.process(judge, piece * (100_000 // len(piece)) + " if")
    process.start()
    process.join()
    assert process.exitcode == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_every_rule_of_a_suite_is_let_pass(family: str) -> None:
    suite = WorldSuite(family, (load_family(family),), WorldSpec())
    for split in suite.splits:
        for world in range(6):
            for skill in suite.known_skills(split=split, world=world).skills.values():
                assert objection(skill.text) is None, skill.text


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
        SkillEdit("write_file", CLEANING.name, path="references/the-user-asked-for-may.md", content="See above."),
        SkillEdit("write_file", CLEANING.name, path="scripts/jq_is_not_installed.sh", content="jq ."),
        SkillEdit("write_file", CLEANING.name, path="notes/jq is not installed/a.md", content="See above."),
    ],
)
def test_a_refused_write_changes_nothing_and_says_which_sentence(edit: SkillEdit) -> None:
    s = session(CLEANING)
    with pytest.raises(ToolError, match=r"not saved: it records .*: '"):
        s.manage(edit)
    assert (s.writes, s.library.snapshot) == ([], Library([CLEANING]).snapshot)


def test_a_script_is_code_and_never_judged() -> None:
    script = 'raise SystemExit("jq: command not found")'
    session(CLEANING).manage(SkillEdit("write_file", CLEANING.name, path="scripts/a.py", content=script))


def test_a_file_whose_path_says_too_much_may_be_patched_and_removed() -> None:
    path = "references/jq-is-not-installed.md"
    s = session(msgspec.structs.replace(CLEANING, files={path: b"See above."}))
    s.manage(SkillEdit("patch", CLEANING.name, path=path, old_string="above", new_string="below"))
    s.manage(SkillEdit("remove_file", CLEANING.name, path=path))


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


@pytest.mark.parametrize("family", FAMILIES)
def test_another_places_rule_is_another_skill(family: str) -> None:
    suite = WorldSuite(family, (load_family(family),), WorldSpec())
    for split in suite.splits:
        for world in range(3):
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


@pytest.mark.parametrize("origin", ["", "installed", "bundled"])
def test_what_a_person_wrote_or_installed_is_not_deleted(origin: str) -> None:
    s = session(skill("a", "How", "Do it.", origin=origin))
    with pytest.raises(ToolError, match="not written by an agent"):
        s.manage(SkillEdit("delete", "a"))
    own = session(skill("a", "How", "Do it.", origin="review"))
    assert own.manage(SkillEdit("delete", "a")).action == "delete"
