"""Columns are made from the parts of a line that they need, and are those of the whole record."""

from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_episodes import make_episode

from hermes_lab.analysis.data.columns import read_columns
from hermes_lab.analysis.data.load import load_dataset, load_episodes
from hermes_lab.analysis.data.rows import EpisodeRow
from hermes_lab.errors import ConfigError
from hermes_lab.lane import lane_key
from hermes_lab.records import read_episodes
from hermes_lab.types import (
    Child,
    Compression,
    Episode,
    EpisodeError,
    MemoryUse,
    MemoryWrite,
    Message,
    ModelIdentity,
    Observation,
    Review,
    SkillTrace,
    SkillUse,
    SkillWrite,
    Step,
    TaskInfo,
    ToolCall,
    Trajectory,
    Usage,
    Verdict,
)

NAMES = list(get_type_hints(EpisodeRow))
STOPS = (
    *("answered", "empty", "length", "filtered", "refused", "unparsed", "repeated", "context_full"),
    *("max_iterations", "max_seconds", "max_tokens", "max_cost"),
)

count = st.integers(0, 50)
share = st.floats(0, 1)
text = st.text(max_size=8)
usages = st.builds(Usage, count, count, uncounted=count)
writes = st.builds(SkillWrite, st.just("create"), text, text, st.just("review"), text, text, text)
note_writes = st.builds(MemoryWrite, st.just("add"), st.just("memory"), st.just("review"), text, text, text, text, text)
errors = st.builds(
    EpisodeError, st.sampled_from(("model", "sandbox", "verifier", "internal")), text | st.just(" one\ntwo")
)
trajectories = st.builds(
    Trajectory,
    messages=st.just((Message("user", "x" * 90), Message("assistant", "", (ToolCall("c", "t", {"a": [1]}),)))),
    tools=st.just(()),
    tool_format=st.just("hermes"),
    stop_reason=st.sampled_from(STOPS),
    steps=st.lists(st.builds(Step, count, st.just("stop"), usages), max_size=2).map(tuple),
    usage=usages,
    compressions=st.lists(st.builds(Compression, count, count, count, count, usages), max_size=1).map(tuple),
)
reviews = st.builds(
    Review,
    trajectory=st.none() | trajectories,
    writes=st.lists(writes, max_size=2).map(tuple),
    memory=st.lists(note_writes, max_size=2).map(tuple),
    seconds=share,
    error=st.none() | errors,
)
traces = st.builds(
    SkillTrace, text, eligible=st.none() | st.booleans(), followed=st.none() | st.booleans(), adherence=share
)
skills = st.builds(
    SkillUse,
    snapshot=text,
    listed=st.lists(text, max_size=3).map(tuple),
    loaded=st.lists(text, max_size=2).map(tuple),
    writes=st.lists(writes, max_size=2).map(tuple),
    traces=st.lists(traces, max_size=3).map(tuple),
)
anything = st.none() | st.booleans() | st.integers(-5, 5) | text | st.lists(count, max_size=2)
tasks = st.builds(
    TaskInfo,
    text,
    text,
    world=count,
    triggers=st.lists(text, max_size=2).map(tuple),
    metadata=st.dictionaries(st.sampled_from(("family", "rule_type", "seen", "else")), anything),
)
METRICS = (
    *("api_calls", "iterations", "tool_calls", "tool_errors", "cut_replies", "unparsed_calls", "refused_calls"),
    *("first_call", "first_call_ok", "submissions", "of a plugin"),
)
episodes = st.builds(
    Episode,
    suite=st.sampled_from(("s", "t")),
    task_id=st.sampled_from(("a", "b")),
    lane=st.sampled_from(("main", "on-r3-w12", "off-r0-w1-a2", "on-r1")),
    round=st.integers(0, 1),
    sample=st.integers(0, 1),
    experience=count,
    place=count,
    status=st.sampled_from(("ok", "errored")),
    task=tasks,
    model=st.builds(ModelIdentity, text, text, adapter=text, adapter_digest=text),
    config_digest=text,
    started_at=text,
    seconds=share,
    error=st.none() | errors,
    score=st.none() | share,
    success=st.none() | st.booleans(),
    verdicts=st.lists(st.builds(Verdict, share, st.booleans()), max_size=3).map(tuple),
    trajectory=st.none() | trajectories,
    skills=skills,
    memory=st.builds(MemoryUse, snapshot=text, writes=st.lists(note_writes, max_size=2).map(tuple)),
    observation=st.none()
    | st.builds(Observation, share, st.booleans(), count, st.booleans(), st.booleans(), count, st.booleans()),
    children=st.lists(st.builds(Child, text, count, st.none() | trajectories), max_size=2).map(tuple),
    review=st.none() | reviews,
    metrics=st.dictionaries(st.sampled_from(METRICS), count.map(float)),
    phase=st.sampled_from(("learn", "heldout")),
    block=count,
)


AS_RECORDED = (
    *("key", "suite", "task_id", "lane", "round", "sample", "experience", "place", "phase", "block"),
    *("status", "started_at", "seconds", "config_digest"),
)


def row_of_the_whole(run: Path, e: Episode) -> EpisodeRow:
    """Said once more, from the record that the runner wrote."""
    lane = lane_key(e.lane)
    judged = e.status == "ok" and e.success is not None
    usage = e.trajectory.usage if e.trajectory else Usage()
    review = e.review.trajectory.usage if e.review and e.review.trajectory else Usage()
    stop_reason = e.trajectory.stop_reason if e.trajectory else ""
    first_call_ok = e.metrics.get("first_call_ok")
    meta = {name: e.task.metadata.get(name) for name in ("family", "rule_type", "seen")}
    votes = [vote for judgement in e.judgements for vote in judgement.votes]
    return EpisodeRow(
        judge_votes=len(votes),
        judge_tokens=sum(vote.usage.prompt_tokens + vote.usage.completion_tokens for vote in votes),
        judge_cost=sum(vote.cost for vote in votes),
        uncounted_votes=sum(vote.usage.uncounted for vote in votes),
        rescore_problem=e.rescored.problem if e.rescored else "",
        run=str(run),
        **{name: getattr(e, name) for name in AS_RECORDED},
        domain=e.task.domain,
        split=e.task.split,
        family=meta["family"] if isinstance(meta["family"], str) else "",
        rule_type=meta["rule_type"] if isinstance(meta["rule_type"], str) else "",
        seen=meta["seen"] if isinstance(meta["seen"], bool) else None,
        world=lane.world if lane else e.task.world,
        arm=lane.arm if lane else e.lane,
        replicate=lane.replicate if lane else 0,
        weights=lane.weights if lane else 0,
        error_kind=e.error.kind if e.error else "",
        error_message=e.error.message.strip().split("\n")[0] if e.error else "",
        score=e.score if judged else None,
        success=e.success if judged else None,
        accepted=any(verdict.success for verdict in e.verdicts) if judged else None,
        submissions=len(e.verdicts),
        triggered=bool(e.task.triggers),
        stop_reason=stop_reason,
        censored=stop_reason in {"context_full", "max_iterations", "max_seconds", "max_tokens", "max_cost"},
        iterations=int(e.metrics.get("iterations", 0)),
        api_calls=int(e.metrics.get("api_calls", 0)),
        tool_calls=int(e.metrics.get("tool_calls", 0)),
        tool_errors=int(e.metrics.get("tool_errors", 0)),
        **{name: whole(e.metrics.get(name)) for name in ("cut_replies", "unparsed_calls", "refused_calls")},
        first_call=first_call(e),
        first_call_ok=None
        if first_call_ok is None or e.status == "errored" or first_call(e) is False
        else bool(first_call_ok),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        uncounted_calls=usage.uncounted,
        uncounted_review_calls=review.uncounted,
        review_tokens=review.prompt_tokens + review.completion_tokens,
        review_completion_tokens=review.completion_tokens,
        review_calls=len(e.review.trajectory.steps) if e.review and e.review.trajectory else 0,
        skills_listed=len(e.skills.listed),
        skills_loaded=len(e.skills.loaded),
        reused=bool(e.skills.loaded),
        skills_written=len(e.skills.writes) + (len(e.review.writes) if e.review else 0),
        notes_written=len(e.memory.writes) + (len(e.review.memory) if e.review else 0),
        noted=e.memory.snapshot != "",
        skills_eligible=sum(trace.eligible is True for trace in e.skills.traces),
        skills_usable=sum(trace.listed and trace.eligible is not False for trace in e.skills.traces),
        skills_followed=None
        if e.skills.loaded and all(trace.followed is None for trace in e.skills.traces)
        else sum(trace.followed is True for trace in e.skills.traces),
        recovered=e.observation.recovered if e.observation else None,
        learning_value=e.observation.value if e.observation else None,
        reviewed=e.review is not None,
        review_error=e.review.error.message if e.review and e.review.error else "",
        review_stop_reason=e.review.trajectory.stop_reason if e.review and e.review.trajectory else "",
        review_seconds=e.review.seconds if e.review else 0.0,
        children=len(e.children),
        provider=e.model.provider,
        model=e.model.name,
        adapter=e.model.adapter,
        adapter_digest=e.model.adapter_digest,
        snapshot=e.skills.snapshot,
    )


def whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def first_call(e: Episode) -> bool | None:
    if e.status == "errored" or "first_call_ok" not in e.metrics:
        return None
    if "first_call" in e.metrics:
        return e.metrics["first_call"] > 0
    return True if e.metrics["first_call_ok"] else None if e.metrics.get("tool_calls") else False


def write_lines(run: Path, *lines: bytes) -> Path:
    (run / "episodes").mkdir(parents=True, exist_ok=True)
    (run / "episodes" / "w0-0.jsonl").write_bytes(b"".join(lines))
    return run


def line(episode: Episode) -> bytes:
    return msgspec.json.encode(episode) + b"\n"


@settings(max_examples=150, deadline=None)
@given(st.lists(episodes, max_size=6))
def test_rows_are_those_of_the_whole_records(tmp_path_factory: pytest.TempPathFactory, written: list[Episode]) -> None:
    run = write_lines(tmp_path_factory.mktemp("run"), *map(line, written))
    rows = [EpisodeRow(*values) for values in read_columns(run, EpisodeRow.__struct_fields__)]
    assert rows == [row_of_the_whole(run, episode) for episode in read_episodes(run)]
    # Each value is of the type that its column is documented with, or of a subtype.
    assert msgspec.convert(rows, list[EpisodeRow], from_attributes=True) == rows


@settings(max_examples=15, deadline=None)
@given(st.lists(episodes, min_size=1, max_size=4))
def test_a_column_alone_is_the_column_of_the_whole_table(
    tmp_path_factory: pytest.TempPathFactory, written: list[Episode]
) -> None:
    run = write_lines(tmp_path_factory.mktemp("run"), *map(line, written))
    whole = load_episodes(run)
    for name in NAMES:
        pd.testing.assert_frame_equal(load_episodes(run, columns=[name]), whole[[name]])


def test_columns_come_in_the_order_asked_for(tmp_path: Path) -> None:
    frame = load_episodes(write_lines(tmp_path, line(make_episode(True))), columns=["success", "arm", "success"])
    assert list(frame.columns) == ["success", "arm"]
    assert [str(dtype) for dtype in frame.dtypes] == ["boolean", "str"]


def test_what_no_column_asks_for_is_not_decoded(tmp_path: Path) -> None:
    odd = line(make_episode(True)).replace(b'"tool_format":"native"', b'"tool_format":7')
    run = write_lines(tmp_path, odd.replace(b'"usage":{', b'"usage":{"x":0,'))
    assert load_episodes(run, columns=["success"])["success"].tolist() == [True]


def test_an_unknown_column_names_those_like_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown column 'sucess'; did you mean success"):
        load_episodes(write_lines(tmp_path), columns=["sucess"])
    with pytest.raises(ConfigError, match="unknown column 'qqqqqq'; see `EpisodeRow`"):
        load_episodes(write_lines(tmp_path), columns=["qqqqqq"])


def test_every_column_is_documented_once_and_made(tmp_path: Path) -> None:
    (values,) = read_columns(write_lines(tmp_path, line(make_episode(True))), NAMES)
    assert len(values) == len(NAMES)


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    whole, torn = line(make_episode(True)), line(make_episode(True, task=1))[:-30]
    assert load_episodes(write_lines(tmp_path, whole, torn))["task_id"].tolist() == ["t0"]


def test_a_line_that_is_no_episode_is_named_by_file_and_line(tmp_path: Path) -> None:
    run = write_lines(tmp_path, line(make_episode(True)), b"{}\n")
    with pytest.raises(ConfigError, match=r"w0-0\.jsonl:2: not an episode"):
        load_episodes(run, columns=["success"])


def test_a_line_of_a_newer_version_is_named_by_file_and_line(tmp_path: Path) -> None:
    run = write_lines(tmp_path, line(make_episode(True)), line(make_episode(True, task=1)).replace(b'"v":1', b'"v":9'))
    with pytest.raises(ConfigError, match=r"w0-0\.jsonl:2: record version 9 is newer"):
        load_episodes(run, columns=["run"])


def test_a_later_attempt_stands_where_it_was_written(tmp_path: Path) -> None:
    first, other, again = make_episode(False), make_episode(True, task=1), make_episode(True)
    frame = load_episodes(write_lines(tmp_path, line(first), line(other), line(again)))
    assert frame[["task_id", "success"]].values.tolist() == [["t1", True], ["t0", True]]


def test_a_lane_tells_the_weights_where_they_are_a_factor(tmp_path: Path) -> None:
    lanes = ("on-r0-w0", "on-r0-w0-a2", "main")
    frame = load_episodes(write_lines(tmp_path, *(line(make_episode(True, lane=lane)) for lane in lanes)))
    assert frame["weights"].tolist() == [0, 2, 0]


def test_budgets_and_a_full_context_censor_and_an_answer_does_not(tmp_path: Path) -> None:
    stopped = [
        make_episode(False, task=task, trajectory=Trajectory((), (), "native", reason))
        for task, reason in enumerate(("max_seconds", "context_full", "answered", "length"))
    ]
    frame = load_episodes(write_lines(tmp_path, *map(line, stopped)))
    assert frame["censored"].tolist() == [True, True, False, False]


def test_a_dataset_has_the_columns_of_the_table(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    run = write_lines(tmp_path, line(make_episode(True)), line(make_episode(None, task=1)))
    dataset = load_dataset(run)
    assert dataset.column_names == NAMES
    assert dataset["success"][:] == [True, None]
    assert load_dataset(run, columns=["score"]).column_names == ["score"]


def test_without_the_library_a_dataset_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    absent: Any = None
    monkeypatch.setitem(sys.modules, "datasets", absent)
    with pytest.raises(ConfigError, match=r"pip install 'hermes-lab\[train\]'"):
        load_dataset(tmp_path)
