"""The library of a chat: what it may be, what a broken skill does to it, and how a compiled skill is counted."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.openai_server import FakeOpenAIServer, Reply, Script, function_call, running

from hermes_lab.errors import ConfigError
from hermes_lab.runners.cli import app
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.storage.store import SkillStore
from hermes_lab.types import Skill

CODE = 'def add_up(rows: list[float]) -> float:\n    """Add up."""\n    return sum(rows)\n'
TESTS = "from add_up import add_up\nassert add_up([1, 2]) == 3\n"
COMPILE = {"name": "add_up", "purpose": "Add up numbers.", "code": CODE, "tests": TESTS}


def skill(name: str, body: str = "Do it.") -> Skill:
    return skill_format.parse(skill_format.render(name, f"About {name}", body))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield tmp_path / "home"


def call(tool: str, **arguments: object) -> Reply:
    return Reply(tool_calls=[function_call("c", tool, arguments)])


def chat(script: Script, *args: str) -> list[dict[str, object]]:
    with running(FakeOpenAIServer(script)) as server:
        chosen = {"model.base_url": server.base_url, "model.name": "fake", "model.max_retries": "0"}
        given = [part for key, value in chosen.items() for part in ("-c", f"{key}={value}")]
        assert app(["chat", "Work.", *given, *args], standalone_mode=False) == 0
        return server.requests


@pytest.mark.parametrize("as_home", [False, True])
def test_a_chat_never_writes_into_a_run(tmp_path: Path, as_home: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library([skill("fleet")])
    snapshot = tmp_path / "run" / "skills" / library.snapshot
    library.save(snapshot)
    (tmp_path / "run" / "run.json").write_text("{}")
    link = tmp_path / "home" / "skills" if as_home else tmp_path / "link"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(snapshot)
    before = sorted(tmp_path.joinpath("run").rglob("*"))
    for given in ([],) if as_home else (["-c", f"skills.library={snapshot}"], ["-c", f"skills.library={link}"]):
        with pytest.raises(ConfigError, match=r"cannot be changed; .*: hermes-lab skills install .*/skills/"):
            chat(["Hello."], *given)
    assert sorted(tmp_path.joinpath("run").rglob("*")) == before


def test_a_library_that_is_no_folder_is_one_line_and_an_empty_one_is_fine(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for name in ("file", "none"):
        with pytest.raises(ConfigError, match=r"^skills\.library: .*: no such folder"):
            chat(["Hello."], "-c", f"skills.library={tmp_path / name}")
    assert not (tmp_path / "none").exists()
    chat(["Hello."], "-c", f"skills.library={tmp_path / 'empty'}")


def test_a_chat_goes_on_without_a_broken_skill_and_notes_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = SkillStore(home / "skills")
    store.change(lambda _: Library([skill("fleet"), skill("canteen")]), origin="user", reason="begun")
    path = store.root / "fleet" / "SKILL.md"
    path.write_text("half an edit")
    create = call("skill_manage", action="create", name="tea", description="Tea", content="# Tea\n\nBrew it.\n")
    over = call("skill_manage", action="create", name="fleet", description="Fleet", content="# Fleet\n\nDo it.\n")
    first, *_, last = chat([create, over, "Saved."])
    system = str(first["messages"])
    assert '- "canteen": ' in system
    assert '- "fleet": ' not in system
    assert "'fleet' is broken" in str(last["messages"]).replace("\\", "")
    assert "fleet/SKILL.md: must begin with frontmatter" in capsys.readouterr().err
    assert path.read_text() == "half an edit"
    assert set(store.load().skills) == {"canteen", "tea"}


def test_a_compile_is_one_change_and_a_call_is_a_use(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chat([call("skill_compile", **COMPILE), "Done."])
    store = SkillStore(home / "skills")
    (change,) = store.history()
    assert (change.action, change.name) == ("create", "add-up")
    assert change.paths == ("scripts/add_up.py", "scripts/test_add_up.py")
    assert set(store.load().skills["add-up"].files) == set(change.paths)
    chat([call("add_up", rows=[1, 2]), call("add_up", rows=[3]), "6"])
    capsys.readouterr()
    assert app(["skills", "list", "--json"], standalone_mode=False) is None
    (entry,) = json.loads(capsys.readouterr().out)["skills"]
    assert (entry["name"], entry["uses"]) == ("add-up", 1)  # a turn that used it
    app(["skills", "health", "--json"], standalone_mode=False)
    assert "no outcome was judged" in capsys.readouterr().out


def test_a_call_of_a_compiled_skill_keeps_it_from_growing_stale(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chat([call("skill_compile", **COMPILE), "Done."])
    store = SkillStore(home / "skills")
    history = store.root / ".hermes" / "history.jsonl"
    (change,) = store.history()
    history.write_text(history.read_text().replace(change.at[:4], "2020", 1))  # it was made long ago

    def proposed() -> list[str]:
        capsys.readouterr()
        app(["skills", "curate", "--json"], standalone_mode=False)
        return [proposal["action"] for proposal in json.loads(capsys.readouterr().out)["proposals"]]

    assert proposed()
    (store.root / ".hermes" / "checked").touch()  # the daily round was today
    chat([call("add_up", rows=[1, 2]), "3"])
    assert proposed() == []


def test_a_day_after_the_last_a_chat_puts_away_what_is_old_and_says_so(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = SkillStore(home / "skills")
    learnt = [skill_format.marked(skill(name), origin="review") for name in ("canteen", "canteen-too", "fleet")]
    store.change(lambda _: Library([*learnt, skill("mine")]), origin="review", reason="learnt")
    history = store.root / ".hermes" / "history.jsonl"
    (change,) = store.history()
    history.write_text(history.read_text().replace(change.at[:4], "2020", 1))
    path = store.root / "fleet" / "SKILL.md"
    path.write_text(f"{path.read_text()}\nMine now.\n")

    def states() -> list[str]:
        return [skill_format.state(found) for _, found in sorted(store.load().skills.items())]

    system = str(chat(["Hello."])[0]["messages"])
    assert ('- "mine": ' in system, '- "canteen": ' in system) == (True, True), "the round comes at the end"
    assert "skills 2 archived: canteen, canteen-too; `hermes-lab skills restore NAME`" in capsys.readouterr().err
    assert states() == ["archived", "archived", "active", "active"]
    *_, last = store.history()
    assert last.origin == "curator"
    store.change(lambda now: now.with_skill(learnt[0]), origin="review", reason="as it was")
    history.write_text(history.read_text().replace(change.at[:4], "2020"))
    chat(["Hello."])
    assert states()[0] == "active", "the round was today"
    yesterday = (store.root / ".hermes" / "checked").stat().st_mtime - 24 * 60 * 60 - 1
    for checked, clock in ((yesterday, "a day later"), (yesterday + 10 * 24 * 60 * 60, "the clock was wrong")):
        store.change(lambda now: now.with_skill(learnt[0]), origin="review", reason="as it was")
        history.write_text(history.read_text().replace(change.at[:4], "2020"))
        os.utime(store.root / ".hermes" / "checked", (checked, checked))
        chat(["Hello."])
        assert states()[0] == "archived", clock
