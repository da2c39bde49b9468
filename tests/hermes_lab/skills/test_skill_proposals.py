"""Skills that the agent proposes are live only once they are promoted."""

from pathlib import Path

import pytest

from hermes_lab.errors import ToolError
from hermes_lab.skills.storage.proposals import Proposals
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.types import SkillEdit

BY = {"episode": "s1", "model": "m"}


def create(name: str, content: str = "Do it.") -> SkillEdit:
    return SkillEdit("create", name, description=f"About {name}", content=content)


@pytest.fixture
def live(tmp_path: Path) -> SkillStore:
    store = SkillStore(tmp_path / "skills")
    store.commit([create("known")], "user", **BY)
    return store


def test_a_proposal_is_in_the_library_only_once_it_is_promoted(live: SkillStore) -> None:
    proposals = Proposals(live)
    assert not proposals.pending()
    skill, writes = proposals.commit([create("new")], "review", **BY)
    assert skill is not None
    assert [(write.action, write.name, write.origin) for write in writes] == [("create", "new", "review")]
    assert set(live.load().skills) == {"known"}
    assert set(proposals.library().skills) == {"known", "new"}
    assert Proposals(live).promote(proposals.pending(), "measured") == ["new"]
    assert set(live.load().skills) == {"known", "new"}
    assert not proposals.pending()
    assert list(live.history())[-1].reason == "measured"


def test_the_new_text_of_a_live_skill_is_a_proposal_and_later_edits_build_on_it(live: SkillStore) -> None:
    proposals = Proposals(live)
    proposals.commit([SkillEdit("patch", "known", old_string="Do it.", new_string="Do it twice.")], "review", **BY)
    proposals.commit([SkillEdit("patch", "known", old_string="twice", new_string="thrice")], "review", **BY)
    assert "Do it.\n" in live.load().skills["known"].text
    assert "thrice" in proposals.pending()["known"].text
    proposals.promote(proposals.pending(), "measured")
    assert "thrice" in live.load().skills["known"].text


def test_a_refused_edit_of_a_live_skill_leaves_no_proposal(live: SkillStore) -> None:
    proposals = Proposals(live)
    with pytest.raises(ToolError, match="already exists; use action=patch"):
        proposals.commit([create("known")], "review", **BY)
    with pytest.raises(ToolError, match="'known' cannot be deleted by a proposal"):
        proposals.commit([SkillEdit("delete", "known")], "review", **BY)
    assert not proposals.pending()
    proposals.commit([create("new")], "review", **BY)
    assert proposals.commit([SkillEdit("delete", "new")], "review", **BY)[0] is None
    assert not proposals.pending()


def test_a_proposal_that_a_person_has_made_live_meanwhile_is_none_any_more(live: SkillStore) -> None:
    proposals = Proposals(live)
    proposals.commit([create("new")], "review", **BY)
    live.commit([create("new")], "user", **BY)
    assert not proposals.pending()


def test_a_proposal_that_changes_while_it_is_measured_stays_one(live: SkillStore) -> None:
    proposals = Proposals(live)
    proposals.commit(
        [
            create("new"),
        ],
        "review",
        **BY,
    )
    proposals.commit([create("other")], "review", **BY)
    measured = proposals.pending()
    proposals.commit([SkillEdit("patch", "new", old_string="Do it.", new_string="Delete it.")], "review", **BY)
    assert Proposals(live).promote(measured, "measured") == ["other"]
    assert set(live.load().skills) == {"known", "other"}
    assert "Delete it." in proposals.pending()["new"].text
    assert Proposals(live).promote(measured, "measured") == []
