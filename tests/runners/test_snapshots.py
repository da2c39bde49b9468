"""What an episode began with, read back from its run."""

from pathlib import Path

import pytest
from fakes.episodes import episode

from hermes_lab.errors import ConfigError
from hermes_lab.knowledge import Knowledge
from hermes_lab.memory.notes import Notes
from hermes_lab.runners.engine.snapshots import keep_knowledge, knowledge_of, remove_partial_snapshots
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.types.episode import SkillUse


def test_skills_that_were_changed_in_a_run_are_not_taken_for_those_of_the_episode(tmp_path: Path) -> None:
    library = Library([skill_format.parse(skill_format.render("tea", "Tea", "Brew it."))])
    folder = tmp_path / "skills" / library.snapshot
    library.save(folder)
    began = episode("t", skills=SkillUse(library.snapshot))
    assert knowledge_of(tmp_path, began).library.snapshot == library.snapshot
    path = folder / "tea" / "SKILL.md"
    path.write_text(path.read_text().replace("Brew", "Drink"))
    with pytest.raises(ConfigError, match="was changed since the run wrote it"):
        knowledge_of(tmp_path, began)


def test_a_lane_that_forgot_everything_has_no_notes_and_what_a_kill_left_is_swept(tmp_path: Path) -> None:
    keep_knowledge(tmp_path, "lane", Knowledge(notes=Notes(("secret",))))
    link = tmp_path / "lanes" / "lane" / "home" / "memory"
    assert (link / "MEMORY.md").read_text() == "secret"
    keep_knowledge(tmp_path, "lane", Knowledge())
    assert not link.is_symlink()
    for kind in ("skills", "memory"):
        (tmp_path / kind / ".saving-x" / "half").mkdir(parents=True)
    remove_partial_snapshots(tmp_path)
    assert not list(tmp_path.glob("*/.saving-*"))
