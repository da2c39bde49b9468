from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes.episodes import conversation, episode, trajectory, write_run
from hypothesis import given
from hypothesis import strategies as st

from hermes_lab.training.config import Gate
from hermes_lab.training.pairs import find_pairs, join_pairs
from hermes_lab.training.preference_data import select_pairs, tokenize_pairs
from hermes_lab.training.tokens import IGNORED
from hermes_lab.types import Episode, Message, Step, TaskInfo, TokenBranch, Usage, Verdict


def scored(task_id: str, sample: int, score: float, **fields: Any) -> Episode:
    """A sample whose answer tells it from the others."""
    usual = trajectory([*conversation(f"Do {task_id}")[:-1], Message(role="assistant", content=f"Done {sample}.")])
    verdict = Verdict(score, score == 1.0)
    return episode(task_id, sample=sample, score=score, verdicts=(verdict,), **{"trajectory": usual} | fields)


def samples(task_id: str) -> tuple[Episode, Episode]:
    return scored(task_id, 0, 0.0), scored(task_id, 1, 1.0)


def test_the_best_of_a_prompt_is_paired_with_the_worst(tmp_path: Path) -> None:
    run = write_run(tmp_path, scored("t", 0, 0.5), *samples("t")[:0], scored("t", 1, 1.0), scored("t", 2, 0.0))
    selected = select_pairs([run], Gate())
    ((chosen, rejected),) = selected.pairs
    assert (chosen.episode[-1], rejected.episode[-1]) == ("1", "2")
    assert selected.refused == {"neither best nor worst": 1}


@pytest.mark.parametrize(
    ("episodes", "refused"),
    [
        ((scored("t", 0, 0.0), scored("t", 1, 0.5)), {"pair without an accepted sample": 1}),
        ((scored("t", 0, 1.0), scored("t", 1, 1.0)), {"no better and no worse than the others": 2}),
        ((scored("t", 0, 1.0),), {"without another sample": 1}),
        ((*samples("t"), *(msgspec.structs.replace(e, lane="b", config_digest="b") for e in samples("t"))), {}),
        (tuple(msgspec.structs.replace(e, task=TaskInfo("d", "heldout")) for e in samples("t")), {"held out": 2}),
    ],
)
def test_what_makes_no_pair_is_counted(tmp_path: Path, episodes: tuple[Episode, ...], refused: dict[str, int]) -> None:
    selected = select_pairs([write_run(tmp_path, *episodes, *samples("good"))], Gate())
    duplicates = {"duplicate pair": 1} if not refused else {}
    assert selected.refused == (refused or duplicates)
    assert all("good" in pair.chosen.episode or not refused for pair in selected.pairs)


@pytest.mark.parametrize(
    "better",
    [
        {"stop_reason": "length", "final_response": None},
        {"stop_reason": "max_iterations"},
        {"steps": (Step(2, "stop", Usage()), Step(4, "length", Usage()))},
    ],
)
def test_a_sample_that_was_cut_or_ran_out_is_never_chosen(tmp_path: Path, better: dict[str, Any]) -> None:
    worst, best = samples("t")
    best = msgspec.structs.replace(best, trajectory=msgspec.structs.replace(best.trajectory, **better))
    selected = select_pairs([write_run(tmp_path / "two", worst, best)], Gate())
    assert (selected.pairs, selected.refused) == ([], {"without a better sample that ended with an answer": 2})
    middle = msgspec.structs.replace(scored("t", 2, 0.5), verdicts=(Verdict(1.0, True),))
    ((chosen, rejected),) = select_pairs([write_run(tmp_path / "three", worst, best, middle)], Gate()).pairs
    assert (chosen.episode[-1], rejected.episode[-1]) == ("2", "0")


def test_a_sample_that_was_cut_may_be_rejected(tmp_path: Path) -> None:
    worst, best = samples("t")
    cut = msgspec.structs.replace(worst.trajectory, stop_reason="length", final_response=None)
    selected = select_pairs([write_run(tmp_path, msgspec.structs.replace(worst, trajectory=cut), best)], Gate())
    assert [pair.rejected.episode for pair in selected.pairs] == [worst.key]


@pytest.mark.parametrize("stop", ["filtered", "refused", "unparsed"])
def test_a_reply_that_was_withheld_or_not_read_is_in_no_pair(tmp_path: Path, stop: str) -> None:
    worst, best = samples("t")
    spoilt = msgspec.structs.replace(worst.trajectory, stop_reason=stop, final_response=None)
    selected = select_pairs([write_run(tmp_path, msgspec.structs.replace(worst, trajectory=spoilt), best)], Gate())
    assert selected.refused == {f"ended as {stop}": 1, "without another sample": 1}


def test_a_task_of_a_judging_run_makes_no_pair(tmp_path: Path) -> None:
    data = write_run(tmp_path / "data", *samples("t"), *samples("u"))
    judge = write_run(tmp_path / "judge", scored("t", 0, 0.0, lane="other"))
    selected = select_pairs([data], Gate(held_out=(str(judge),)))
    assert [pair.chosen.episode.split("|")[1] for pair in selected.pairs] == ["u"]
    assert selected.refused == {"held out": 2}


def test_the_digest_knows_the_pairs_and_not_their_folders(tmp_path: Path) -> None:
    a, b = write_run(tmp_path / "a", *samples("t")), write_run(tmp_path / "b", *samples("u"))
    both = write_run(tmp_path / "both", *samples("u"), *samples("t"))
    assert select_pairs([a, b], Gate()).digest == select_pairs([both], Gate()).digest
    assert select_pairs([a], Gate()).digest != select_pairs([b], Gate()).digest


def test_every_sampled_token_counts_and_no_other(tmp_path: Path) -> None:
    prompt, tool = [1, 2, 3], [7, 8]

    def sampled(sample: int, score: float) -> Episode:
        ids = (*prompt, 10 + sample, 5, *tool, 20 + sample)
        mask = (0, 0, 0, 1, 1, 0, 0, 1)
        usual = trajectory(
            conversation("Do t"),
            branches=(TokenBranch(ids, mask, (-1.0,) * len(ids)),),
            # A reply that was cut may be rejected, and has its tokens then; it is never chosen.
            steps=(Step(2, "tool_calls", Usage()), Step(4, "stop" if sample else "length", Usage())),
        )
        return scored("t", sample, score, trajectory=usual)

    selected = select_pairs([write_run(tmp_path, sampled(0, 0.0), sampled(1, 1.0))], Gate())
    ((chosen, rejected),), refused = tokenize_pairs(selected.pairs, None, 8)
    assert chosen.input_ids == [1, 2, 3, 11, 5, 7, 8, 21]
    assert chosen.labels == [IGNORED] * 3 + [11, 5] + [IGNORED] * 2 + [21]
    assert rejected.labels == [IGNORED] * 3 + [10, 5] + [IGNORED] * 2 + [20]
    assert not refused
    assert tokenize_pairs(selected.pairs, None, 7) == ([], {"pair longer than 7 tokens": 1})


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0])), max_size=20), st.randoms())
def test_every_sample_is_in_a_pair_or_counted_whatever_the_order(made: list[tuple[int, float]], draw: Any) -> None:
    episodes = [scored(f"t{task}", place, score) for place, (task, score) in enumerate(made)]

    def pairs(ordered: list[Episode]) -> tuple[set[tuple[str, str]], Counter[str]]:
        left_out: Counter[str] = Counter()
        finished = [(one, one.trajectory) for one in ordered if one.trajectory]
        keys = find_pairs(finished, left_out)
        joined = {(chosen.key, rejected.key) for chosen, rejected in join_pairs(keys, ordered)}
        assert joined == set(keys)
        return joined, left_out

    found, left_out = pairs(episodes)
    assert 2 * len(found) + left_out.total() == len(episodes)
    scores = {one.key: one.score or 0.0 for one in episodes}
    assert all(scores[chosen] > scores[rejected] for chosen, rejected in found)
    shuffled = draw.sample(episodes, len(episodes))
    assert pairs(shuffled) == (found, left_out)
