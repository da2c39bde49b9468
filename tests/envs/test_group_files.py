"""A file of scored groups holds groups that can be trained on, or says which one cannot, and why."""

import math
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes.episodes import scored_group
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.envs.groups import normalized_advantages, read_groups, validate_group, write_groups
from hermes_lab.errors import ConfigError
from hermes_lab.types import ModelIdentity, ScoredGroup

GOLDEN = Path(__file__).parents[1] / "golden" / "groups-v1.jsonl"

tokens = st.lists(
    st.tuples(st.integers(0, 150_000), st.one_of(st.none(), st.floats(-1e3, 0, allow_nan=False))), min_size=1
).filter(lambda sequence: any(logprob is not None for _, logprob in sequence))


@st.composite
def groups(draw: st.DrawFn) -> ScoredGroup:
    """Episodes with a reward each, of one sequence or more."""
    rewards = draw(st.lists(st.floats(-10, 10), min_size=1, max_size=5))
    advantages = normalized_advantages(rewards)
    sequences = [(s, seq) for s in range(len(rewards)) for seq in draw(st.lists(tokens, min_size=1, max_size=2))]
    return scored_group(
        world=2,
        round=3,
        model=ModelIdentity("vllm", "m", adapter="a", adapter_digest="digest"),
        episodes=tuple(f"s|t|main|3|{sample}" for sample, _ in sequences),
        samples=tuple(sample for sample, _ in sequences),
        token_ids=tuple(tuple(token for token, _ in sequence) for _, sequence in sequences),
        masks=tuple(tuple(int(logprob is not None) for _, logprob in sequence) for _, sequence in sequences),
        logprobs=tuple(tuple(logprob for _, logprob in sequence) for _, sequence in sequences),
        rewards=tuple(rewards[sample] for sample, _ in sequences),
        advantages=tuple(advantages[sample] for sample, _ in sequences),
    )


AXES = ("episodes", "samples", "token_ids", "masks", "logprobs", "rewards", "advantages")
LOGPROBS = (None, -0.5, -0.1)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"v": 3}, "v: is 3"),
        ({"policy": ""}, "policy: is empty"),
        ({"rewards": (1.0,)}, "axis G has several lengths: .*rewards 1"),
        ({"samples": (0, 1, 2)}, "axis G has several lengths: .*samples 3"),
        ({"masks": ((0, 1), (0, 1, 1))}, "sequence 0: has 3 token ids, 2 of mask and 3 log-probabilities"),
        ({"logprobs": (LOGPROBS, (None, -0.5))}, "sequence 1: has 3 token ids, 3 of mask and 2 log-probabilities"),
        ({"token_ids": ((1, 2, 3), (1, -100, 3))}, "sequence 1: a token id is below 0"),
        ({"masks": ((0, 2, 1), (0, 1, 1))}, "something else than 0 and 1"),
        ({"masks": ((0, 0, 0), (0, 1, 1)), "logprobs": ((None,) * 3, LOGPROBS)}, "marks no sampled token"),
        ({"logprobs": ((0.0, -0.5, -0.1), LOGPROBS)}, "token 0 was not sampled, but has the log-probability 0"),
        ({"logprobs": ((None, None, -0.1), LOGPROBS)}, "token 1 was sampled, but its log-probability is None"),
        ({"logprobs": ((None, 0.5, -0.1), LOGPROBS)}, "its log-probability is 0.5"),
        ({"logprobs": ((None, -math.inf, -0.1), LOGPROBS)}, "its log-probability is -inf"),
        ({"logprobs": ((None, math.nan, -0.1), LOGPROBS)}, "its log-probability is nan"),
        ({"episodes": ("s|t|main|0|0", "s|u|main|0|1")}, r"is of episode 's\|u\|main\|0\|1'"),
        ({"samples": (0, 2)}, r"by task and sample of 's\|t\|main\|0\|2'"),
        ({"rewards": (math.nan, 0.0)}, "is not a finite number"),
        ({"rewards": (0.5, 0.5)}, "sequence 0: its advantage is 0.707107; by the rewards it is 0"),
        ({"advantages": (0.0, 0.0)}, "sequence 0: its advantage is 0; by the rewards it is 0.707107"),
        ({"episodes": ("s|t|main|0|0",) * 2, "samples": (0, 0)}, "its advantage"),
        (dict.fromkeys(AXES, ()), "it has no sequence"),
    ],
)
def test_a_broken_group_is_neither_written_nor_read(tmp_path: Path, broken: dict[str, Any], why: str) -> None:
    out = tmp_path / "groups.jsonl"
    assert write_groups([scored_group(), scored_group()], out) == 2
    before = out.read_bytes()
    name = r"group s\|t\|main\|0 of (digest|no policy): .*"
    with pytest.raises(ConfigError, match=rf"groups.jsonl: line 2 would not be a valid group: {name}{why}"):
        write_groups([scored_group(), scored_group(**broken)], out)
    assert (out.read_bytes(), list(tmp_path.iterdir())) == (before, [out])

    # JSON has no number that is not finite, which then is null; that is refused all the same.
    out.write_bytes(msgspec.json.encode(scored_group()) + b"\n" + msgspec.json.encode(scored_group(**broken)) + b"\n")
    with pytest.raises(ConfigError, match=r"groups\.jsonl:2: "):
        read_groups(out)


def test_two_rewards_of_one_episode_are_no_reward() -> None:
    twice = {"episodes": ("s|t|main|0|0",) * 2, "samples": (0, 0), "advantages": (0.0, 0.0)}
    validate_group(scored_group(**twice, rewards=(1.0, 1.0)))
    with pytest.raises(ConfigError, match="sequence 1: has another reward than the other ones of its episode"):
        validate_group(scored_group(**twice, rewards=(1.0, 0.5)))


@settings(max_examples=25)  # each of them is synced to the disk
@given(st.lists(groups(), max_size=3))
def test_groups_survive_their_file(written: list[ScoredGroup]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "groups.jsonl"
        assert write_groups(written, path) == len(written)
        assert read_groups(path) == written


@given(groups(), st.data())
def test_a_mask_that_was_shifted_by_one_token_is_never_trained_on(whole: ScoredGroup, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(whole.masks) - 1))
    mask_T = whole.masks[number]
    shifted = (*mask_T[1:], mask_T[0])
    masks = (*whole.masks[:number], shifted, *whole.masks[number + 1 :])
    if shifted == mask_T:
        validate_group(msgspec.structs.replace(whole, masks=masks))
    else:
        with pytest.raises(ConfigError, match=f"sequence {number}: token "):
            validate_group(msgspec.structs.replace(whole, masks=masks))


def test_groups_of_version_1_are_read_as_if_they_were_written_today() -> None:
    """The file was written by an earlier release, and is never changed."""
    tuned, bare = read_groups(GOLDEN)
    assert (tuned.v, tuned.policy, tuned.samples) == (2, "digest", (0, 0, 1, 2))
    assert tuned.logprobs[1] == (None, -0.5, -0.25, None, -1.5)
    assert (tuned.split, tuned.world, tuned.config_digest, tuned.model) == ("", -1, "", ModelIdentity("", ""))
    assert (bare.policy, bare.rewards, bare.advantages) == ("m", (0.5, 0.5), (0.0, 0.0))


def test_an_upgraded_file_is_written_as_version_2_and_read_again(tmp_path: Path) -> None:
    upgraded = read_groups(GOLDEN)
    write_groups(upgraded, tmp_path / "groups.jsonl")
    assert read_groups(tmp_path / "groups.jsonl") == upgraded


def test_a_broken_group_of_version_1_is_refused(tmp_path: Path) -> None:
    row = msgspec.json.decode(GOLDEN.read_bytes().splitlines()[0])
    for broken in ({"masks": [[0, 1, 1]]}, {"episodes": ["x"] * 4}, {"episodes": [1] * 4}, {"logprobs": None}):
        (tmp_path / "g.jsonl").write_bytes(msgspec.json.encode({**row, **broken}))
        with pytest.raises(ConfigError, match=r"g\.jsonl:1: "):
            read_groups(tmp_path / "g.jsonl")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "not a scored group"),
        ("[]", "not a scored group"),
        ("{}", "not a scored group"),
        ('{"v": 2}', "not a scored group: .*suite"),
        ('{"v": 3}', "record version 3 is newer than this Hermes Lab reads"),
        ('{"v": "2"}', "not a scored group"),
        ("[" * 100_000, "not a scored group"),
        ("\xff", "not a scored group"),
    ],
)
def test_what_is_no_group_is_named_by_file_and_line(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "g.jsonl"
    path.write_bytes(msgspec.json.encode(scored_group()) + b"\n" + line.encode("latin-1") + b"\n")
    with pytest.raises(ConfigError, match=rf"g\.jsonl:2: {why}"):
        read_groups(path)


def test_a_file_that_is_not_there_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_groups(tmp_path / "none.jsonl")
