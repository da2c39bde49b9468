"""The curator: what it proposes, that it ends, and that all of it can be taken back."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.config.schema import SkillsConfig
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.compiled.security import Problem
from hermes_lab.skills.curator.curate import Proposal, carry_out, plan
from hermes_lab.skills.curator.merged_skill import absorb, members, restore
from hermes_lab.skills.learning.stats import SkillStats, Use, stats
from hermes_lab.skills.library import Library
from hermes_lab.skills.manage import apply
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.types import Skill, SkillEdit

NOW = datetime(2026, 6, 1, tzinfo=UTC)
CONFIG = SkillsConfig()
COMMAND = "Run `./ledger sum fleet.csv --out answer.json --drop status=held`."
BODIES = {
    "fleet-totals": f"Held documents are left out of the fleet totals.\n\n{COMMAND}",
    "fleet-totals-sum": f"Of the fleet totals, held documents are left out.\n\n{COMMAND}",
    "the-fleet-totals": f"Held documents are left out: sum the rest of the fleet totals.\n\n{COMMAND}",
    "harbor-totals": "Void documents are left out.\n\nRun `./ledger sum harbor.csv --keep status=void`.",
    "canteen-hours": "The canteen opens at noon, and on Fridays an hour before.",
}
DUPLICATES = ("fleet-totals", "fleet-totals-sum", "the-fleet-totals")


def skill(
    name: str, body: str = "", description: str = "", files: dict[str, bytes] | None = None, **ours: str
) -> Skill:
    marks = {"origin": "review", **ours}
    about = description or f"How {name.replace('-', ' ')} are made. Use when asked for {name.replace('-', ' ')}."
    return skill_format.parse(skill_format.render(name, about, body or BODIES[name], **marks), files)


def ago(days: float) -> str:
    return (NOW - timedelta(days=days)).isoformat()


def fared(**outcomes: str) -> dict[str, SkillStats]:
    uses = [Use(name.replace("_", "-"), o == "+", ago(1)) for name, all_ in outcomes.items() for o in all_]
    return stats(uses, alpha=0.1)


def planned(library: Library, known: dict[str, SkillStats] | None = None, **changed: float) -> list[Proposal]:
    times = {name.replace("_", "-"): ago(days) for name, days in changed.items()}
    return plan(library, known or {}, NOW, CONFIG, last_changed=times)


def told(proposals: list[Proposal]) -> list[tuple[str, tuple[str, ...]]]:
    return [(proposal.action, proposal.names) for proposal in proposals]


def test_duplicates_go_below_the_best_proven_and_others_stay() -> None:
    library = Library(skill(name) for name in BODIES)
    (proposal,) = planned(library, fared(fleet_totals_sum="+++", fleet_totals="+-"))
    assert proposal.names == ("fleet-totals-sum", "fleet-totals", "the-fleet-totals")
    assert "3 of 3 uses solved, posterior mean 0.80" in proposal.why
    after = carry_out(library, [proposal])
    assert set(after.listed) == {"fleet-totals-sum", "harbor-totals", "canteen-hours"}
    assert set(after.skills) == set(library.skills)
    assert skill_format.mark(after.skills["fleet-totals"], "absorbed-into") == "fleet-totals-sum"


def test_an_umbrella_says_when_to_read_what_it_absorbed() -> None:
    library = Library(skill(name) for name in DUPLICATES)
    merged_skill = absorb(library, "fleet-totals", DUPLICATES[1:]).skills["fleet-totals"]
    shown = skill_format.shown(merged_skill)
    assert "- Read `references/the-fleet-totals.md` for: How the fleet totals are made." in shown
    assert "Also: Use when asked for the fleet totals." in merged_skill.description
    assert "Held documents are left out: sum" in merged_skill.files["references/the-fleet-totals.md"].decode()
    assert skill_format.body(library.skills["fleet-totals"]) in shown
    assert "hermes-" not in shown


def test_files_are_carried_over_without_a_clash_and_named_by_their_new_paths() -> None:
    files = {"scripts/sum.py": b"mine", "references/same.md": b"same"}
    one = skill("fleet-totals", files={"scripts/sum.py": b"other", "references/same.md": b"same"})
    two = skill(
        "the-fleet-totals", "Run `python ./scripts/sum.py`, not myscripts/sum.py; see references/same.md.", files=files
    )
    after = absorb(Library([one, two]), "fleet-totals", ["the-fleet-totals"]).skills["fleet-totals"]
    text = after.files.pop("references/the-fleet-totals.md").decode()
    assert after.files == {**one.files, "scripts/the-fleet-totals/sum.py": b"mine"}
    assert "`python ./scripts/the-fleet-totals/sum.py`, not myscripts/sum.py; see references/same.md" in text


def test_a_description_stays_within_its_limit() -> None:
    long = "Use when " + "the totals of the fleet are asked for " * 26
    library = Library([skill("fleet-totals", description=long)] + [skill(n) for n in DUPLICATES[1:]])
    merged_skill = absorb(library, "fleet-totals", DUPLICATES[1:]).skills["fleet-totals"]
    assert len(long) - 10 < len(merged_skill.description) <= skill_format.MAX_DESCRIPTION


@pytest.mark.parametrize(
    "marks", [{"pinned": "true"}, {"origin": "user"}, {"origin": "bundled"}, {"origin": "installed"}]
)
def test_what_is_a_persons_is_only_noted(marks: dict[str, str]) -> None:
    library = Library([skill("fleet-totals", **marks), skill("fleet-totals-sum")])
    (note,) = planned(library, fleet_totals=400)
    assert (note.action, note.names) == ("note", ("fleet-totals", "fleet-totals-sum"))
    assert note.why.endswith("only you may change fleet-totals")
    assert carry_out(library, [note]).snapshot == library.snapshot


def test_a_persons_skill_is_never_changed_whatever_is_proposed() -> None:
    library = Library([skill("fleet-totals", pinned="true"), skill("fleet-totals-sum")])
    asked = [Proposal("archive", ("fleet-totals",), ""), Proposal("merge", ("fleet-totals-sum", "fleet-totals"), "")]
    assert carry_out(library, [*asked, Proposal("stale", ("gone",), "")]).snapshot == library.snapshot


def test_a_compiled_skill_is_a_tool_and_is_not_merged() -> None:
    assert planned(Library([skill("fleet-totals", compiled="totals"), skill("fleet-totals-sum")])) == []


def test_what_was_long_unused_is_stale_then_archived_and_back_when_it_is_used() -> None:
    library = Library([skill("canteen-hours")])
    assert planned(library, canteen_hours=29.9) == []
    assert planned(library) == []  # of no known age
    (stale,) = planned(library, canteen_hours=30)
    assert (stale.action, stale.why) == ("stale", "unused for 30 days (limit 30)")
    aged = carry_out(library, [stale])
    assert set(aged.listed) == {"canteen-hours"}
    assert told(planned(aged, canteen_hours=89)) == []
    assert told(planned(aged, fared(canteen_hours="+"), canteen_hours=89)) == [("reactivate", ("canteen-hours",))]
    (archive,) = planned(aged, canteen_hours=90)
    assert not carry_out(aged, [archive]).listed
    assert planned(carry_out(aged, [archive]), canteen_hours=900) == []


def test_a_failing_or_broken_skill_is_deprecated_and_merged_with_nothing() -> None:
    library = Library(skill(name) for name in DUPLICATES[:2])
    (proposal,) = planned(library, fared(fleet_totals="-" * 12))
    assert (proposal.action, proposal.names) == ("deprecate", ("fleet-totals",))
    assert proposal.why.startswith("failing: 0 of 12 uses solved")
    problems = {"fleet-totals": [Problem("error", "SKILL.md", 2, "bad")]}
    (proposal,) = plan(library, {}, NOW, CONFIG, last_changed={}, problems=problems)
    assert proposal.why == "broken: SKILL.md:2: bad"


def test_an_umbrella_is_as_young_as_what_it_absorbed() -> None:
    library = Library(skill(name) for name in DUPLICATES[:2])
    proposals = planned(library, fleet_totals=50, fleet_totals_sum=1)
    assert told(proposals) == [("merge", ("fleet-totals", "fleet-totals-sum"))]


def test_a_skill_that_is_restored_is_as_before_and_is_not_merged_again() -> None:
    library = Library(skill(name) for name in DUPLICATES)
    after = carry_out(library, planned(library))
    for name in DUPLICATES[1:]:
        after = restore(after, name)
        assert not any("fleet-totals" in proposal.names for proposal in planned(after))
    assert told(planned(after)) == [("merge", DUPLICATES[1:])]  # nobody said that these two differ
    assert after.skills["fleet-totals"] == library.skills["fleet-totals"]
    assert [skill_format.shown(s) for s in after.skills.values()] == [
        skill_format.shown(s) for s in library.skills.values()
    ]


def test_an_umbrella_does_not_creep_on_to_what_is_unlike_a_part_of_it() -> None:
    far = skill("sum-fleet-totals", f"Held documents are left out: sum the rest of the fleet totals.\n\n{COMMAND}")
    known = fared(fleet_totals_sum="+++")
    assert told(planned(Library([skill("fleet-totals"), far]))) == []
    library = Library([skill("fleet-totals"), skill("fleet-totals-sum"), far])
    (proposal,) = planned(library, known)
    assert proposal.names == ("fleet-totals-sum", "sum-fleet-totals")
    assert planned(carry_out(library, [proposal]), known) == []
    assert told(planned(library.without("sum-fleet-totals"), known)) == [
        ("merge", ("fleet-totals-sum", "fleet-totals"))
    ]


def test_a_skill_that_was_written_anew_is_its_own_again() -> None:
    library = Library(skill(name) for name in DUPLICATES[:2])
    after = carry_out(library, planned(library))
    edit = SkillEdit("patch", "fleet-totals-sum", old_string="status=held", new_string="status=void")
    after, _ = apply(after, edit, origin="review", episode="e", model="m")
    assert "fleet-totals-sum" in after.listed
    assert members(after, "fleet-totals") == []
    assert planned(after) == []


def test_an_umbrellas_description_that_was_rewritten_stays_when_a_skill_is_given_back() -> None:
    library = absorb(Library(skill(name) for name in DUPLICATES), "fleet-totals", DUPLICATES[1:])
    before = library.skills["fleet-totals"].description.partition(" Also: ")[0]
    edit = SkillEdit("edit", "fleet-totals", description=f"{before} And of ferries.", content=BODIES["fleet-totals"])
    library, _ = apply(library, edit, origin="review", episode="e", model="m")
    assert restore(library, DUPLICATES[1]).skills["fleet-totals"].description.startswith(f"{before} And of ferries.")


def test_a_store_has_the_library_before_the_curator(tmp_path: Path) -> None:
    store = SkillStore(tmp_path / "skills")
    library = Library(skill(name) for name in BODIES)
    store.change(lambda _: library, origin="user", reason="begin")
    store.change(lambda _: carry_out(library, planned(library)), origin="curator", reason="curated")
    assert store.load().snapshot != library.snapshot
    assert store.at(library.snapshot).snapshot == library.snapshot


def test_an_umbrella_that_is_absorbed_takes_all_along() -> None:
    library = Library(skill(name) for name in DUPLICATES)
    first = absorb(library, "fleet-totals", ["fleet-totals-sum"])
    second = absorb(first, "the-fleet-totals", ["fleet-totals"])
    files = second.skills["the-fleet-totals"].files
    assert set(files) == {"references/fleet-totals.md", "references/fleet-totals/fleet-totals-sum.md"}
    assert b"Read `references/fleet-totals/fleet-totals-sum.md`" in files["references/fleet-totals.md"]
    assert planned(second) == []


def test_a_merge_over_a_limit_is_noted() -> None:
    files = {f"references/{number}.md": b"x" for number in range(99)}
    library = Library([skill("fleet-totals", files=files), skill("fleet-totals-sum", files={"assets/x": b"y"})])
    (note,) = planned(library)
    assert note.action == "note"
    assert "more than 100" in note.why


def test_numbered_rules_are_all_kept_apart() -> None:
    library = Library(skill(f"rule-{n}", f"Order {n} is split by {n + 1} desks.") for n in range(100))
    assert planned(library) == []


outcomes = st.text("+-", max_size=12)
a_skill = st.builds(
    lambda name, state, pinned, extra: skill(name, f"{BODIES[name]} {extra}", state=state, pinned=pinned),
    st.sampled_from(sorted(BODIES)),
    st.sampled_from(["", "stale", "deprecated", "archived"]),
    st.sampled_from(["", "", "true"]),
    st.sampled_from(["", "Ask the owner.", "Check the sum. Tell the clerk of every gap."]),
)
libraries = st.builds(lambda skills: Library(_numbered(skills)), st.lists(a_skill, max_size=8))


def _numbered(skills: list[Skill]) -> list[Skill]:
    """Each by a name of its own, so that there are many duplicates."""
    found = []
    for number, one in enumerate(skills):
        name = f"{one.name}-{number}"
        text = one.text.replace(f"name: {one.name}\n", f"name: {name}\n")
        found.append(msgspec.structs.replace(one, name=name, text=text))
    return found


@settings(max_examples=60)
@given(library=libraries, data=st.data())
def test_carried_out_there_is_nothing_left_to_do_and_nothing_is_lost(library: Library, data: st.DataObject) -> None:
    ages = {name: ago(data.draw(st.sampled_from([1, 29, 31, 91]), name)) for name in library.skills}
    known = stats(
        [
            Use(n, o == "+", ago(data.draw(st.sampled_from([2, 40]))))
            for n in library.skills
            for o in data.draw(outcomes)
        ],
        alpha=0.1,
    )
    proposals = plan(library, known, NOW, CONFIG, last_changed=ages)
    after = carry_out(library, proposals)
    assert [p for p in plan(after, known, NOW, CONFIG, last_changed=ages) if p.action != "note"] == []
    assert plan(library, known, NOW, CONFIG, last_changed=ages) == proposals
    assert set(after.skills) == set(library.skills)
    for name, before in library.skills.items():
        if skill_format.pinned(before):
            assert after.skills[name] == before
    for name in library.skills:
        if skill_format.mark(after.skills[name], "absorbed-into"):
            after = restore(after, name)
    assert [skill_format.shown(s) for s in after.skills.values()] == [
        skill_format.shown(s) for s in library.skills.values()
    ]
    assert {n: s.files for n, s in after.skills.items()} == {n: s.files for n, s in library.skills.items()}
