"""Rows of every format over very different episodes, and that `datasets` reads them."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast, get_args

import msgspec
import pytest
from export_episodes import NATIVE, TOOLS, WELL_FORMED, compressed, decoded, errored, make_run, mixed, native, say
from fakes.episodes import CALL, conversation, episode, trajectory

from hermes_lab.errors import ConfigError
from hermes_lab.runners.export import FORMATS, Name, hf
from hermes_lab.runners.export.format import Lines
from hermes_lab.runners.export.output import write_lines
from hermes_lab.runners.export.source import Source
from hermes_lab.types import Episode, EpisodeError, Message, ModelIdentity, Reward, TokenBranch, Trajectory, Verdict


def lines(name: str) -> Lines:
    """A format of JSON Lines."""
    format = FORMATS[cast(Name, name)]
    assert isinstance(format, Lines)
    return format


def rows(tmp_path: Path, name: Name, episodes: Iterable[Episode]) -> tuple[list[dict[str, Any]], Counter[str]]:
    """What a JSON Lines format writes of `episodes`, and what it leaves out."""
    source = Source(make_run(tmp_path / "run", *episodes))
    write_lines(lines(name).rows(source), tmp_path / "rows.jsonl")
    return decoded(tmp_path / "rows.jsonl"), source.left_out


def test_every_format_has_a_name_and_every_name_a_format() -> None:
    assert set(get_args(Name)) == set(FORMATS)


# openai


def test_openai_messages_stand_as_they_were_sent_and_sampled(tmp_path: Path) -> None:
    (row,), left_out = rows(tmp_path, "openai", [errored(), native()])
    assert left_out == {"errored": 1}
    assert row["messages"] == [
        {"role": "system", "content": "You use tools."},
        {"role": "user", "content": "Count the files."},
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "Two at once.",
            "tool_calls": [
                call("call_a", "terminal", '{"command":"ls | wc -l"}'),
                call("call_b", "read_file", '{"path":"a","limit":5}'),
            ],
        },
        {"role": "tool", "tool_call_id": "call_a", "content": NATIVE[3].content},
        {"role": "tool", "tool_call_id": "call_b", "content": NATIVE[4].content},
        {"role": "assistant", "content": "", "tool_calls": [call("call_c", "terminal", "{}")]},
        {"role": "tool", "tool_call_id": "call_c", "content": NATIVE[6].content},
        {"role": "assistant", "content": "There are 3."},
    ]
    assert row["tools"] == list(TOOLS)
    expected = {
        "episode": "made-up|native|lane|0|0",
        "status": "ok",
        "score": 1.0,
        "success": True,
        "stop_reason": "answered",
        "model": "m",
        "adapter": "sft-v1",
        "adapter_digest": "feed",
        "snapshot": "5a5a",
        "config_digest": "c",
        "malformed_calls": [
            {"message": 5, "id": "call_c", "raw": '{"command": "ls', "error": "invalid tool call: not JSON"}
        ],
    }
    assert expected.items() <= row["metadata"].items()


def call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_openai_rows_of_the_text_format_are_role_and_content(tmp_path: Path) -> None:
    (row,), _ = rows(tmp_path, "openai", [episode("t")])
    assert row["messages"][2] == {"role": "assistant", "content": CALL}
    assert row["messages"][3]["role"] == "user"
    assert row["tools"] == []


def test_a_review_is_no_part_of_an_openai_row_and_a_compressed_log_is_whole(tmp_path: Path) -> None:
    made, _ = rows(tmp_path, "openai", [mixed()[2], compressed()])
    assert [len(row["messages"]) for row in made] == [5, 6]
    assert [len(row["metadata"]["compressions"]) for row in made] == [0, 1]


@pytest.mark.parametrize("name", ["openai", "hermes"])
def test_every_row_has_the_same_keys(tmp_path: Path, name: Name) -> None:
    made, _ = rows(tmp_path, name, mixed())
    assert len({tuple(row) for row in made}) == len({tuple(row["metadata"]) for row in made}) == 1


# preference


def scored(sample: int, score: float | None) -> Episode:
    told = {"score": score, "success": None if score is None else score == 1.0}
    return episode("t", sample=sample, trajectory=trajectory(conversation("Do it")), **told)


def test_a_pair_is_the_best_and_the_worst_sample_of_a_task(tmp_path: Path) -> None:
    samples = [scored(0, 0.5), scored(1, 0.0), scored(2, 1.0), scored(3, 1.0), scored(4, 0.0)]
    (row,), left_out = rows(tmp_path, "preference", [samples[i] for i in (3, 1, 0, 4, 2)])
    told = row["metadata"]
    assert (told["chosen"]["sample"], told["rejected"]["sample"]) == (2, 1)
    assert left_out == {"neither best nor worst": 3}
    assert [m["role"] for m in row["prompt"]] == ["system", "user"]
    assert (
        [m["role"] for m in row["chosen"]] == [m["role"] for m in row["rejected"]] == ["assistant", "user", "assistant"]
    )
    assert row["tools"] == []


def test_what_makes_no_pair_is_left_out_and_counted_by_its_reason(tmp_path: Path) -> None:
    other = ModelIdentity("vllm", "m", adapter_digest="other")
    silent = Trajectory((Message(role="user", content="?"),), (), "hermes", "context_full")
    episodes = [
        errored(),
        scored(0, None),
        scored(1, 1.0),
        scored(2, 1.0),
        msgspec.structs.replace(scored(3, 0.0), model=other),
        episode("u", score=0.0, trajectory=trajectory(conversation("Another prompt"))),
        episode("v", score=0.0, trajectory=silent),
        msgspec.structs.replace(compressed(), score=0.0),
        native(),
    ]
    made, left_out = rows(tmp_path, "preference", episodes)
    assert made == []
    assert left_out == {
        "errored": 1,
        "not scored": 1,
        "no better and no worse than the others": 2,
        "without another sample": 2,
        "without a reply": 1,
        "compressed on the way": 1,
        "with a malformed call, whose own text no template writes": 1,
    }


def test_samples_of_different_prompts_are_never_a_pair(tmp_path: Path) -> None:
    other = episode("t", sample=1, score=0.0, trajectory=trajectory(conversation("Do it, please")))
    made, left_out = rows(tmp_path, "preference", [scored(0, 1.0), other])
    assert (made, left_out) == ([], {"without another sample": 2})


def test_native_pairs_carry_tools_and_arguments_as_objects_and_end_with_a_reply(tmp_path: Path) -> None:
    cut = native(sample=1, messages=WELL_FORMED[:5], score=0.0, success=False)
    (row,), _ = rows(tmp_path, "preference", [native(messages=WELL_FORMED), cut])
    assert row["tools"] == list(TOOLS)
    assert row["chosen"][0]["tool_calls"][0]["function"]["arguments"] == {"command": "ls | wc -l"}
    assert [m["role"] for m in row["rejected"]] == ["assistant"]


# groups and sft


def test_groups_and_sft_are_those_of_training(tmp_path: Path) -> None:
    branch = (TokenBranch((1, 2), (0, 1), (0.0, -0.5)),)
    rollouts = [
        msgspec.structs.replace(
            scored(i, float(i)),
            reward=Reward(float(i)),
            trajectory=trajectory(conversation("Do it"), branches=branch),
            verdicts=(Verdict(float(i), i == 1),),
        )
        for i in range(2)
    ]
    (group,), left_out = rows(tmp_path / "groups", "groups", [*rollouts, errored(), scored(5, None)])
    assert (group["rewards"], left_out) == ([0.0, 1.0], {"errored": 1, "not scored": 1})
    (row,), left_out = rows(tmp_path / "sft", "sft", [*rollouts, errored()])
    assert (row["trained"], left_out) == ([2, 4], {"errored": 1, "not accepted": 1})


# datasets

LOAD = """
import json, sys
from datasets import load_dataset
root = sys.argv[1]
found = {}
for name in ("openai", "hermes", "preference"):
    found[name] = load_dataset("json", data_files=f"{root}/{name}.jsonl", cache_dir=f"{root}/cache")
found["hf"] = load_dataset(f"{root}/made-up", cache_dir=f"{root}/cache")
print(json.dumps({name: {split: list(rows) for split, rows in of.items()} for name, of in found.items()}))
"""
Loaded = dict[str, dict[str, list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JSON Lines and the dataset folder of one run."""
    pytest.importorskip("datasets", reason="needs the extra `train`")
    root = tmp_path_factory.mktemp("exported")
    pairs = [scored(0, 1.0), scored(1, 0.0), native("pair", WELL_FORMED)]
    pairs.append(native("pair", WELL_FORMED, sample=1, score=0.5, success=False))
    run = make_run(root / "run", *mixed(), *pairs)
    for name in ("openai", "hermes", "preference"):
        write_lines(lines(name).rows(Source(run)), root / f"{name}.jsonl")
    (root / "made-up").mkdir()
    assert hf.write(Source(run), root / "made-up") == 10
    return root


@pytest.fixture(scope="module")
def loaded(exported: Path) -> Loaded:
    """What `datasets` makes of it, in a process of its own: it leaves threads and warnings behind."""
    done = subprocess.run([sys.executable, "-c", LOAD, exported], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    read: Loaded = json.loads(done.stdout)
    return read


@pytest.mark.parametrize("name", ["openai", "hermes", "preference"])
def test_datasets_reads_the_rows(exported: Path, loaded: Loaded, name: str) -> None:
    assert [without_nulls(row) for row in loaded[name]["train"]] == [
        without_nulls(row) for row in decoded(exported / f"{name}.jsonl")
    ]


def without_nulls(value: Any) -> Any:
    """`datasets` gives every struct of a column the same keys."""
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


def test_datasets_reads_the_folder_without_code_split_by_split(exported: Path, loaded: Loaded) -> None:
    read = loaded["hf"]
    assert {name: len(split) for name, split in read.items()} == {"train": 9, "held_out": 1}
    (row,) = read["held_out"]
    assert json.loads(row["tools"]) == list(TOOLS)
    assert json.loads(row["metadata"])["episode"] == row["episode"] == "made-up|other|lane|0|0"
    assert row["messages"][2]["tool_calls"][0]["function"] == {
        "name": "terminal",
        "arguments": '{"command":"ls | wc -l"}',
    }
    plain = read["train"][0]
    assert (plain["score"], plain["accepted"]) == (None, None)
    assert plain["messages"][1]["content"] == "<b>1 & 1 < 2</b> \u2028\n"
    card = (exported / "made-up" / "README.md").read_text()
    assert "path: held_out.parquet" in card
    assert 'load_dataset("PATH")  # this folder, or its name on the hub' in card
    assert 'load_dataset("run")' not in card, "the name of the run is that of no data set"


def test_a_run_without_finished_episodes_is_an_empty_dataset(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra `train`")
    (tmp_path / "out").mkdir()
    assert hf.write(Source(make_run(tmp_path / "run", errored())), tmp_path / "out") == 0
    assert (tmp_path / "out" / "train.parquet").exists()


def test_without_pyarrow_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"hermes-lab\[train\]"):
        hf.write(Source(tmp_path), tmp_path)


# memory


@pytest.mark.parametrize("name", ["openai", "hermes"])
def test_rows_are_made_while_the_log_is_read(tmp_path: Path, name: str) -> None:
    run = make_run(tmp_path, *(episode(f"t{i}", trajectory=say("x")) for i in range(5)))
    seen: list[None] = []
    written = lines(name).rows(Source(run, lambda: seen.append(None)))
    next(written)
    assert len(seen) == 1


@pytest.mark.parametrize("name", ["openai", "hermes"])
def test_an_episode_whose_verifier_failed_in_a_rescoring_is_errored(tmp_path: Path, name: Name) -> None:
    failed = native("failed", status="errored", score=None, success=None, error=EpisodeError("verifier", "broken"))
    assert failed.trajectory is not None
    found, left_out = rows(tmp_path, name, [failed, native()])
    assert [row["metadata"]["task_id"] for row in found] == ["native"]
    assert left_out == {"errored": 1}
