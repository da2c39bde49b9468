"""Lanes learn by rounds: what each arm begins with, and what becomes of it, on the real command line."""

import json
import shutil
from pathlib import Path

import pytest
from fakes.command import lab
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from hermes_lab.config.schema import RunConfig, SuiteConfig
from hermes_lab.errors import ConfigError
from hermes_lab.knowledge import Knowledge
from hermes_lab.memory.notes import Notes, merge_notes
from hermes_lab.records import episode_files, read_episodes
from hermes_lab.runners.engine.episode_summary import EpisodeSummary, _Memory, _Review, _Skills
from hermes_lab.runners.engine.lane_history import MergedNotes, describe_merge, keep_merge, read_history
from hermes_lab.runners.engine.lanes import LaneState, after_round, initial_library
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.placebo import placebo, placebo_notes
from hermes_lab.suites import OracleSuite
from hermes_lab.tasks.jsonl import JsonlSuite
from hermes_lab.tasks.registry import load_suite
from hermes_lab.types import Episode, MemoryWrite, SkillWrite

CONFIGS = Path(__file__).parents[2] / "configs"
ARMS = ("off", "on", "placebo", "oracle")


@pytest.fixture(scope="module")
def one_rule(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("one-rule") / "run"
    done = lab("experiment", "-c", CONFIGS / "one-rule.yaml", "--out", run, "--quiet")
    assert done.returncode == 0, done.stderr
    return run


def lane(run: Path, arm: str) -> list[Episode]:
    return sorted((e for e in read_episodes(run) if e.lane.startswith(f"{arm}-")), key=lambda e: e.round)


def test_the_loop_closes_on_its_own(one_rule: Path) -> None:
    assert {arm: [e.success for e in lane(one_rule, arm)] for arm in ARMS} == {
        "off": [False, False, False, False],
        "on": [False, True, True, True],
        "placebo": [False, False, False, False],
        "oracle": [True, True, True, True],
    }


def test_the_log_tells_how_the_loop_closed(one_rule: Path) -> None:
    first, second, *_ = lane(one_rule, "on")
    assert [v.success for v in first.verdicts] == [False, True]  # it failed on the rule and recovered through feedback
    assert first.observation is not None
    assert first.observation.recovered
    assert first.review is not None
    assert first.review.trajectory is not None
    (write,) = first.review.writes
    assert (write.action, write.origin, write.episode) == ("create", "review", first.key)
    assert (write.snapshot, write.triggers) == (first.skills.snapshot, first.task.triggers)
    assert write.after == second.skills.snapshot  # the next round's library is what the review left
    assert (second.skills.listed, second.skills.loaded) == ((write.name,), (write.name,))
    (trace,) = second.skills.traces
    assert (trace.name, trace.eligible, trace.by) == (write.name, True, "trigger")
    assert (trace.listed, trace.loaded, trace.followed) == (True, True, True)
    assert len(second.verdicts) == 1


def test_arms_without_learning_never_review_and_a_placebo_reviews_as_the_real_arm_does(one_rule: Path) -> None:
    assert not any(e.review for arm in ("off", "oracle") for e in lane(one_rule, arm))
    assert [bool(e.review) for e in lane(one_rule, "placebo")] == [bool(e.review) for e in lane(one_rule, "on")]


def test_a_placebo_loads_its_skill_and_learns_nothing_from_it(one_rule: Path) -> None:
    last = lane(one_rule, "placebo")[-1]
    (trace,) = last.skills.traces
    assert (trace.loaded, trace.followed) == (True, None)  # there is no line to follow
    text = (one_rule / "skills" / last.skills.snapshot / trace.name / "SKILL.md").read_text()
    assert "./ledger" not in text


@pytest.mark.parametrize("arm", ARMS)
def test_any_episode_is_replayed_byte_for_byte(one_rule: Path, arm: str) -> None:
    for episode in lane(one_rule, arm)[::3]:
        done = lab("replay", one_rule, "--episode", episode.key, "--json")
        assert done.returncode == 0, done.stdout
        assert json.loads(done.stdout)["same"]


def test_a_lane_resumes_at_a_rounds_border(one_rule: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(one_rule, run, symlinks=True)
    for path in episode_files(run):
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: len(lines) // 2]))
    done = lab("experiment", "-c", CONFIGS / "one-rule.yaml", "--out", run, "--resume", "--quiet")
    assert done.returncode == 0, done.stderr
    for arm in ARMS:
        again = [(e.success, e.skills.snapshot, e.experience) for e in lane(run, arm)]
        assert again == [(e.success, e.skills.snapshot, e.experience) for e in lane(one_rule, arm)]


def test_a_kill_between_the_last_episode_and_its_border_loses_nothing(one_rule: Path, tmp_path: Path) -> None:
    """What would have come after the last episode is taken away."""
    run = tmp_path / "run"
    shutil.copytree(one_rule, run, symlinks=True)
    lane, wanted = run / "lanes" / "on-r0-w0", (one_rule / "lanes" / "on-r0-w0" / "history.jsonl").read_bytes()
    (lane / "history.jsonl").write_bytes(wanted.splitlines(keepends=True)[0])
    (lane / "home" / "skills").unlink()
    shutil.rmtree(run / "skills" / read_history(one_rule, lane.name)[-1].after)
    done = lab("experiment", "-c", CONFIGS / "one-rule.yaml", "--out", run, "--resume", "--quiet")
    assert done.returncode == 0, done.stderr
    assert (lane / "history.jsonl").read_bytes() == wanted
    assert Library.load(lane / "home" / "skills").snapshot == read_history(run, lane.name)[-1].after


def test_only_lanes_that_learn_have_a_history_and_it_is_whole(one_rule: Path) -> None:
    for arm in ARMS:
        merges = read_history(one_rule, f"{arm}-r0-w0")
        began = [episode.skills.snapshot for episode in lane(one_rule, arm)]
        assert [merge.before for merge in merges] == (began if arm in ("on", "placebo") else [])
        assert [merge.after for merge in merges][:-1] == [merge.before for merge in merges][1:]


def test_round_size_can_be_given_on_the_command_line(tmp_path: Path) -> None:
    args = ("experiment", "-c", CONFIGS / "one-rule.yaml", "-c", "learning.arms=[on]", "-c", "learning.rounds=1")
    done = lab(*args, "--round-size", "3", "--out", tmp_path / "run", "--json")
    assert json.loads(done.stdout)["wanted"] == 3


def summarize(key: str, **fields: object) -> EpisodeSummary:
    return EpisodeSummary(suite="s", task_id=key, lane="on-r0-w0", round=0, sample=0, status="ok", **fields)  # type: ignore[arg-type]


def write(name: str, body: str = "Do it.") -> SkillWrite:
    text = skill_format.render(name, "How", body, origin="review")
    return SkillWrite("create", name, text, "review", "e", "m", "0", triggers=(f"rule of {name}",))


def wrote(key: str, *writes: SkillWrite) -> EpisodeSummary:
    episode = summarize(key).key
    return summarize(key, review=_Review(writes=tuple(structs.replace(write, episode=episode) for write in writes)))


def note(text: str) -> MemoryWrite:
    return MemoryWrite("add", "memory", "review", "e", "m", "0", "0", text)


def test_reviews_come_by_cadence_counted_over_the_lane() -> None:
    state = LaneState(Knowledge(idle=3))
    worked = [summarize("a", metrics={"iterations": 4.0}), summarize("b", metrics={"iterations": 2.0})]
    assert after_round(state, "on", worked, RunConfig())[0].knowledge.idle == 9
    assert after_round(state, "on", [*worked, summarize("c", review=_Review())], RunConfig())[0].knowledge.idle == 0


def test_a_skill_that_fails_leaves_the_prompts_until_it_is_written_again() -> None:
    state, _ = after_round(LaneState(Knowledge()), "on", [wrote("a", write("x"))], RunConfig())
    assert list(state.knowledge.library.listed) == ["x"]
    failed = [summarize(f"t{n}", success=False, skills=_Skills(loaded=("x",))) for n in range(12)]
    state, merge = after_round(state, "on", failed, RunConfig())
    assert list(state.knowledge.library.listed) == []
    assert list(state.knowledge.library.skills) == ["x"]
    (deprecated,) = merge.deprecated
    assert (deprecated.name, deprecated.judged, deprecated.solved) == ("x", 12, 0)
    assert deprecated.high < RunConfig().skills.rewrite_below
    assert describe_merge(merge).endswith(": deprecated x, which solved 0 of 12")
    state, merge = after_round(state, "on", [wrote("b", write("x", "Better."))], RunConfig())
    assert merge.deprecated == ()
    assert list(state.knowledge.library.listed) == ["x"]
    assert state.uses == ()
    assert state.knowledge.learnt_from == {"x": ("rule of x",)}


def test_a_border_tells_which_write_was_dropped_and_for_whom() -> None:
    second = structs.replace(write("same", "Otherwise."), triggers=("another rule",))
    round_ = [wrote("a", write("same"), write("own")), wrote("b", second, write("other"))]
    state, merge = after_round(LaneState(Knowledge()), "on", round_, RunConfig())
    assert [(w.name, w.won) for w in merge.merged] == [("same", ""), ("own", ""), ("other", "")]
    assert [(w.action, w.name, w.origin, w.model, w.won) for w in merge.dropped] == [
        ("create", "same", "review", "m", round_[0].key)
    ]
    assert (merge.before, merge.after) == (Library().snapshot, state.knowledge.library.snapshot)
    assert state.knowledge.learnt_from["same"] == ("rule of same",)  # of the text that is there
    assert "created same, created own, created other; dropped 1 later write of same" in describe_merge(merge)


def test_a_border_tells_what_a_placebo_emptied_and_where_nothing_happened() -> None:
    state, merge = after_round(LaneState(Knowledge()), "placebo", [wrote("a", write("x"))], RunConfig())
    assert merge.emptied
    assert merge.after == state.knowledge.library.snapshot != Library().after(write("x")).snapshot
    _, merge = after_round(state, "placebo", [summarize("b")], RunConfig())
    assert not merge.emptied
    assert describe_merge(merge) == ""


def test_a_border_counts_the_notes_that_it_merged_and_dropped() -> None:
    config = RunConfig.model_validate({"memory": {"memory_chars": 12}})
    round_ = [
        summarize("a", memory=_Memory((note("one"), note("three")))),
        summarize("b", memory=_Memory((note("one"), note("much too long")))),
    ]
    state, merge = after_round(LaneState(Knowledge()), "on", round_, config)
    assert state.knowledge.notes.memory == ("one", "three")
    assert merge.notes == MergedNotes("", state.knowledge.notes_snapshot, merged=2, dropped=2)
    assert state.knowledge.notes == merge_notes(Notes(), (episode.notes for episode in round_), config.memory)


names = st.sampled_from(["a", "b", "c"])
bodies = st.sampled_from(["One.", "Two.", "Three."])
rounds = st.lists(st.lists(st.builds(write, names, bodies), max_size=3), min_size=1, max_size=4)


@given(rounds)
def test_the_writes_that_a_border_calls_merged_make_the_library_that_it_names(episodes: list[list[SkillWrite]]) -> None:
    finished = [wrote(str(number), *writes) for number, writes in enumerate(episodes)]
    state, merge = after_round(LaneState(Knowledge()), "on", finished, RunConfig())
    logged = [write for episode in finished for write in episode.writes]
    merged = {(write.name, write.episode) for write in merge.merged}
    library = Library()
    for each in (kept := [write for write in logged if (write.name, write.episode) in merged]):
        library = library.after(each)
    assert merge.after == state.knowledge.library.snapshot == library.snapshot
    assert (len(kept), len(logged)) == (len(merge.merged), len(merge.merged) + len(merge.dropped))
    assert {(write.name, write.won) for write in merge.dropped} <= merged


def test_a_lanes_history_is_rewritten_only_where_it_differs(tmp_path: Path) -> None:
    _, merge = after_round(LaneState(Knowledge()), "on", [summarize("a")], RunConfig())
    merges = [structs.replace(merge, round=n, after=str(n)) for n in range(3)]
    for each in (*merges, *merges[:2]):
        keep_merge(tmp_path, "on", each)
    assert read_history(tmp_path, "on") == merges
    keep_merge(tmp_path, "on", structs.replace(merges[1], after="otherwise"))
    assert [each.after for each in read_history(tmp_path, "on")] == ["0", "otherwise"]
    assert read_history(tmp_path, "off") == []


@pytest.mark.parametrize(("line", "message"), [("{}", "not a merge record"), ('"v":99', "record version 99 is newer")])
def test_a_line_that_is_no_border_is_named(tmp_path: Path, line: str, message: str) -> None:
    _, merge = after_round(LaneState(Knowledge()), "on", [summarize("a")], RunConfig())
    keep_merge(tmp_path, "on", merge)
    path = tmp_path / "lanes" / "on" / "history.jsonl"
    path.write_text(path.read_text().replace('"v":1', line) if "99" in line else line)
    with pytest.raises(ConfigError, match=rf"history\.jsonl:1: {message}"):
        read_history(tmp_path, "on")


def ledger() -> OracleSuite:
    suite = load_suite(SuiteConfig(name="ledger"))
    assert isinstance(suite, OracleSuite)
    return suite


def test_what_an_arm_begins_with() -> None:
    suite, given = ledger(), Library([skill_format.parse(write("given").text)])
    first = {arm: initial_library(arm, given, suite, split="heldout", world=3) for arm in (*ARMS, "frozen")}  # type: ignore[arg-type]
    assert first["off"].skills == {}
    assert first["on"] is first["frozen"] is given
    assert first["placebo"].snapshot == placebo(given).snapshot != given.snapshot
    tasks = suite.load(split="heldout", count=99, seed=0, world=3)
    rules = {trigger.split(":")[0] for task in tasks for trigger in task.triggers}
    assert set(first["oracle"].skills) == {f"{place}-desk" for place in rules}


def test_a_frozen_library_needs_a_skill() -> None:
    with pytest.raises(ConfigError, match="`frozen` needs a skill, and skills"):
        initial_library("frozen", Library(), ledger(), split="train", world=0)


def test_a_suite_that_cannot_tell_its_rules_has_no_oracle(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"prompt": "Go."}\n')
    with pytest.raises(ConfigError, match="no method `known_skills`"):
        initial_library("oracle", Library(), JsonlSuite(tmp_path / "t.jsonl"), split="train", world=0)


def test_a_placebo_costs_the_same_and_says_nothing() -> None:
    real = ledger().known_skills(split="train", world=0)
    empty = placebo(real)
    assert empty.skills.keys() == real.skills.keys()
    for name, skill in real.skills.items():
        other = empty.skills[name]
        assert len(skill_format.body(other)) == len(skill_format.body(skill))
        assert len(other.description) == len(skill.description)
        assert not set(other.text.split()) & {"./ledger", "--out", "desk's"}
    assert placebo(empty).snapshot == empty.snapshot


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ruled": -1}, "suite.options.ruled"),
        ({"ruled": 99}, "suite.options: a world has at most"),
        ({"ruled": 0, "plain": 0}, "suite.options: a world needs at least"),
        ({"nope": 1}, "suite.options: ledger: .*nope"),
    ],
)
def test_a_wrong_world_is_one_clear_line(options: dict[str, int], message: str) -> None:
    config = RunConfig.model_validate({"suite": {"name": "ledger", "options": options}})
    with pytest.raises(ConfigError, match=message):
        load_suite(config.suite)


def test_a_placebos_notes_say_nothing_either_and_keep_their_length() -> None:
    notes = Notes(("Add 80 at the heating desk.", "Add 90 at the fleet desk now", "x"), ("She likes tea.",))
    empty = placebo_notes(notes)
    assert [len(entry) for entry in (*empty.memory, *empty.user)] == [27, 28, 1, 14]
    assert "80" not in empty.render(RunConfig().memory)
    assert placebo_notes(empty) == empty
    worked = summarize(
        "a", memory=_Memory((MemoryWrite("add", "memory", "review", "e", "m", "", "", text="Use --skip."),))
    )
    after, _ = after_round(LaneState(Knowledge()), "placebo", [worked], RunConfig())
    (entry,) = after.knowledge.notes.memory
    assert len(entry) == len("Use --skip.")
    assert "skip" not in entry


def test_any_two_arms_are_compared(one_rule: Path) -> None:
    done = lab("compare", one_rule, "--arms", "placebo,oracle", "--json")
    report = json.loads(done.stdout)
    assert (report["before"], report["after"]) == ("placebo", "oracle")
    (success,) = [each for each in report["comparisons"] if each["metric"] == "success"]
    assert success["difference"] == 1.0
    same = lab("compare", one_rule, one_rule, "--arms", "on")
    assert (same.returncode, f"{one_rule}: the same run is given twice" in same.stderr) == (2, True)
    both = lab("compare", one_rule, one_rule, "--arms", "off,on")
    assert (both.returncode, "arms: give one arm of two runs" in both.stderr) == (2, True)
    wrong = lab("compare", one_rule, "--arms", "placebo")
    assert (wrong.returncode, "arms: give at least two" in wrong.stderr) == (2, True)
