"""The bundled skills: sound, and synced without touching what a person did."""

from pathlib import Path

import pytest

from hermes_lab.errors import ConfigError
from hermes_lab.skills import format as skill_format
from hermes_lab.skills import own_tests
from hermes_lab.skills.compiled.validate import check_skill
from hermes_lab.skills.storage import bundled
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.types import Skill


def skill(name: str, body: str) -> Skill:
    return skill_format.parse(skill_format.render(name, f"About {name}", body))


@pytest.fixture
def store(tmp_path: Path) -> SkillStore:
    return SkillStore(tmp_path / "skills")


@pytest.fixture
def ship(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Makes a version of the package with these skills."""

    def do(**bodies: str) -> None:
        monkeypatch.setattr(bundled, "bundled", lambda: tuple(skill(name, body) for name, body in bodies.items()))

    return do


def bodies(store: SkillStore) -> dict[str, str]:
    return {name: skill_format.body(one) for name, one in store.load().skills.items()}


def write(store: SkillStore, name: str, body: str) -> None:
    store.change(lambda now: now.with_skill(skill(name, body)), origin="user", reason="mine")


def test_the_bundled_skills_have_no_problem_and_their_tests_pass() -> None:
    assert len(bundled.bundled()) == 3
    for one in bundled.bundled():
        assert check_skill(one) == []
        skill_format.check_standard(one)
        assert len(one.text) < 3000
    assert own_tests.failures(bundled.bundled(), instead="") == {}


def test_new_ones_are_added_and_unchanged_ones_updated(store: SkillStore, ship) -> None:  # type: ignore[no-untyped-def]
    ship(a="One.", b="One.")
    assert not bundled.is_synced(store)
    done = bundled.sync(store)
    assert (done.added, done.updated, done.kept) == (("a", "b"), (), {})
    assert bundled.is_synced(store)
    assert skill_format.origin(store.load().skills["a"]) == "bundled"
    before = store.load().snapshot
    assert bundled.sync(store).change.after == before, "the second sync changes nothing"
    store.change(
        lambda now: now.with_skill(skill_format.marked(now.skills["b"], state="archived")), origin="user", reason="x"
    )
    ship(a="Two.", b="Two.", c="New.")
    assert not bundled.is_synced(store)
    assert bundled.sync(store).updated == ("a", "b")
    assert bodies(store) == {"a": "Two.", "b": "Two.", "c": "New."}
    assert skill_format.state(store.load().skills["b"]) == "archived"


def test_what_a_person_did_is_kept_and_named(store: SkillStore, ship) -> None:  # type: ignore[no-untyped-def]
    write(store, "mine", "My own.")
    ship(mine="Theirs.", edited="One.", deleted="One.", pinned="One.")
    assert bundled.sync(store).kept == {"mine": "is a skill of your own; --replace replaces it"}
    (store.root / "edited" / "SKILL.md").write_text(skill("edited", "Mine.").text)
    store.change(
        lambda now: now.without("deleted").with_skill(skill_format.marked(now.skills["pinned"], pinned="true")),
        origin="user",
        reason="x",
    )
    ship(mine="Two.", edited="Two.", deleted="Two.", pinned="Two.")
    kept = bundled.sync(store).kept
    assert kept == {
        "mine": "is a skill of your own; --replace replaces it",
        "edited": "was changed here; --replace discards that",
        "deleted": "was deleted here; name it to bring it back",
        "pinned": "is pinned",
    }
    assert bodies(store) == {"mine": "My own.", "edited": "Mine.", "pinned": "One."}
    assert bundled.sync(store, ["deleted"]).added == ("deleted",)
    assert bundled.sync(store, ["edited"], replace=True).updated == ("edited",)
    assert bodies(store) == {"mine": "My own.", "edited": "Two.", "pinned": "One.", "deleted": "Two."}
    with pytest.raises(ConfigError, match="none: not bundled; there are: mine, edited"):
        bundled.sync(store, ["none"])


def test_an_edit_that_equals_the_new_version_is_no_edit(store: SkillStore, ship) -> None:  # type: ignore[no-untyped-def]
    ship(a="One.")
    bundled.sync(store)
    write(store, "a", "Two.")
    ship(a="Two.")
    assert bundled.sync(store).kept == {}
    ship(a="Three.")
    assert bundled.sync(store).updated == ("a",), "a sync that was cut off before its manifest is taken up"


def test_a_damaged_manifest_loses_no_edit(store: SkillStore, ship) -> None:  # type: ignore[no-untyped-def]
    ship(a="One.")
    bundled.sync(store)
    write(store, "a", "Mine.")
    (store.root / ".hermes" / "bundled.json").write_text("{")
    ship(a="Two.")
    bundled.sync(store)
    assert bodies(store) == {"a": "Mine."}
