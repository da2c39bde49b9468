"""The episode log keeps what it acknowledged, and owes what it did not."""

import errno
import fcntl
import os
import shutil
from pathlib import Path

import anyio
import msgspec
import pytest
from fakes.episodes import record
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_lab.analysis.data.load import load_episodes
from hermes_lab.durable import hold_folder
from hermes_lab.errors import ConfigError
from hermes_lab.records import EpisodeLog, episode_files, read_attempts, read_episodes, write_atomic
from hermes_lab.types import Episode, EpisodeError, Message, Trajectory, Usage


def episode(task: str, *, status: str = "ok", score: float | None = 1.0, text: str = "hi") -> Episode:
    return record(
        task_id=task,
        status="ok" if status == "ok" else "errored",
        score=score,
        error=None if status == "ok" else EpisodeError("model", "down"),
        trajectory=Trajectory((Message("user", text),), (), "hermes", "answered"),
    )


async def write(run: Path, *episodes: Episode) -> Path:
    log = EpisodeLog(run)
    async with anyio.create_task_group() as group:
        for one in episodes:
            group.start_soon(log.append, one)
    log.close()
    return log.path


@pytest.mark.anyio
async def test_every_acknowledged_episode_is_read_back(tmp_path: Path) -> None:
    written = [episode(f"t{i}") for i in range(200)]
    await write(tmp_path, *written)
    assert sorted(read_episodes(tmp_path), key=lambda e: e.task_id) == sorted(written, key=lambda e: e.task_id)


def test_a_record_is_the_same_bytes_wherever_it_was_sent() -> None:
    """Worker processes send episodes as msgpack; counts stay whole numbers."""
    one = record(metrics={"api_calls": 2, "first_call_ok": 1.0})
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(one), type=Episode)
    assert msgspec.json.encode(sent) == msgspec.json.encode(one)


@pytest.mark.anyio
async def test_text_that_is_no_unicode_is_kept_escaped(tmp_path: Path) -> None:
    """Such as a file name that is not UTF-8, as the system gives it to Python."""
    await write(tmp_path, episode("odd", text="a \udcff b"), episode("plain", text="\\ é"))
    texts = {each.task_id: each.trajectory.messages[0].content for each in read_episodes(tmp_path) if each.trajectory}
    assert texts == {"odd": "a \\udcff b", "plain": "\\ é"}


@pytest.mark.anyio
async def test_a_later_attempt_supersedes_an_errored_one(tmp_path: Path) -> None:
    await write(tmp_path, episode("a", status="errored", score=None), episode("b"))
    await write(tmp_path, episode("a"))
    assert {e.task_id: e.status for e in read_episodes(tmp_path)} == {"a": "ok", "b": "ok"}
    assert len(list(read_attempts(tmp_path, Episode))) == 3


@pytest.mark.anyio
async def test_a_torn_last_line_is_owed_again_and_never_appended_to(tmp_path: Path) -> None:
    path = await write(tmp_path, episode("a"), episode("b"))
    path.write_bytes(path.read_bytes()[:-20])
    assert [e.task_id for e in read_episodes(tmp_path)] == ["a"]
    again = await write(tmp_path, episode("b"))
    assert again != path
    assert sorted(e.task_id for e in read_episodes(tmp_path)) == ["a", "b"]


@pytest.mark.anyio
async def test_a_broken_line_in_the_middle_is_named_by_file_and_line(tmp_path: Path) -> None:
    path = await write(tmp_path, episode("a"))
    path.write_bytes(b"{}\n" + path.read_bytes())
    with pytest.raises(ConfigError, match=r"w0-0\.jsonl:1: not an episode"):
        list(read_episodes(tmp_path))


@pytest.mark.anyio
async def test_a_line_that_is_nested_too_deeply_is_named_by_file_and_line(tmp_path: Path) -> None:
    path = await write(tmp_path, episode("a"))
    deep = b'"metadata":{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"},"
    path.write_bytes(path.read_bytes().replace(b'"task":{', b'"task":{' + deep, 1))
    with pytest.raises(ConfigError, match=r"w0-0\.jsonl:1: not an episode: ") as error:
        list(read_episodes(tmp_path))
    assert "\n" not in str(error.value)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("part", "broken"),
    [
        pytest.param(b'"content":"', b'"content":"\xff', id="not UTF-8"),
        pytest.param(b'"prompt_tokens":7', b'"prompt_tokens":9223372036854775808', id="more than 64 bits"),
    ],
)
async def test_what_no_table_can_hold_is_named_by_file_and_line(tmp_path: Path, part: bytes, broken: bytes) -> None:
    messages = (Message("user", "hi"), Message("assistant", "Hello."))
    counted = Trajectory(messages, (), "hermes", "answered", usage=Usage(prompt_tokens=7))
    path = await write(tmp_path, episode("a"), record(task_id="b", score=1.0, trajectory=counted))
    head, tail = path.read_bytes().split(b"\n", 1)
    assert part in tail
    path.write_bytes(head + b"\n" + tail.replace(part, broken, 1))
    with pytest.raises(ConfigError, match=r"w0-0\.jsonl:2: not an episode: ") as error:
        list(read_episodes(tmp_path))
    assert "\n" not in str(error.value)
    with pytest.raises(ConfigError, match=r"w0-0\.jsonl:2: not an episode: "):
        load_episodes(tmp_path, columns=["success", "prompt_tokens"])


@pytest.mark.anyio
async def test_a_record_from_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = await write(tmp_path, episode("a"))
    path.write_bytes(path.read_bytes().replace(b'"v":1', b'"v":99', 1))
    with pytest.raises(ConfigError, match="newer"):
        list(read_episodes(tmp_path))


@pytest.mark.anyio
async def test_a_full_disk_is_an_error_not_an_acknowledgement(tmp_path: Path) -> None:
    log = EpisodeLog(tmp_path)
    full = Path("/dev/full").open("wb", buffering=0)  # noqa: ASYNC230, SIM115  (closed below, through the log's descriptor)
    import os

    os.dup2(full.fileno(), log._fd)
    full.close()
    with pytest.raises(OSError, match="No space left"):
        await log.append(episode("a"))
    log.close()


def test_an_empty_log_leaves_no_file(tmp_path: Path) -> None:
    EpisodeLog(tmp_path).close()
    assert episode_files(tmp_path) == []


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text())
def test_any_text_survives_the_log(tmp_path: Path, text: str) -> None:
    async def trip() -> None:
        path = await write(tmp_path, episode("t", text=text))
        (read,) = list(read_episodes(tmp_path))
        assert read.trajectory is not None
        assert read.trajectory.messages[0].content == text
        path.unlink()

    anyio.run(trip)


def test_write_atomic_leaves_the_old_file_when_it_fails(tmp_path: Path) -> None:
    target = tmp_path / "f.json"
    write_atomic(target, "old")
    with pytest.raises(TypeError):
        write_atomic(target, None)  # type: ignore[arg-type]
    assert target.read_text() == "old"


GOLDEN = Path(__file__).parents[1] / "golden" / "episodes-v1.jsonl"


def test_records_of_every_version_are_still_read(tmp_path: Path) -> None:
    """Written by earlier releases, and never changed: the first lines did not even carry their version."""
    (tmp_path / "episodes").mkdir()
    shutil.copy(GOLDEN, tmp_path / "episodes" / "w0-0.jsonl")
    episodes = list(read_episodes(tmp_path))
    assert [(e.v, e.status, e.trajectory.tool_format) for e in episodes] == [
        (1, "ok", "native"),
        (1, "ok", "native"),
        (1, "ok", "hermes"),
        (1, "ok", "hermes"),
    ]
    assert all(e.trajectory.messages[0].role == "system" and e.trajectory.steps for e in episodes)
    assert [e.review.writes[0].name for e in episodes if e.review and e.review.writes]


def test_a_record_carries_its_version(tmp_path: Path) -> None:
    assert msgspec.json.decode(msgspec.json.encode(episode("t")))["v"] == 1


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_one_line_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ConfigError) as caught, hold_folder(tmp_path / "run", "run.out"):
        pytest.fail("it is not locked")
    said = str(caught.value)
    assert said.startswith(f"{tmp_path / 'run' / '.lock'}: this file system cannot lock files ({os.strerror(code)})")
    assert "another disk" in said
