"""The curriculum of GRPO: which families a round draws from, and that a killed training draws the same."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from fakes.episodes import rollout
from fakes.grpo_rounds import Killed, MadeUp, countdown, done, made_up_config, outcome, silent, train
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hermes_lab.config.schema import RewardConfig
from hermes_lab.envs.atropos.config import EnvSection
from hermes_lab.envs.atropos.kinds import Kinds
from hermes_lab.errors import ConfigError
from hermes_lab.models.cards import read_card
from hermes_lab.records import read_episodes
from hermes_lab.training.checkpoint_manifest import SEAL
from hermes_lab.training.curriculum import (
    FILE,
    FamilyRound,
    describe_rates,
    draw_groups,
    families_in_window,
    family_round,
    rate,
)
from hermes_lab.training.grpo_config import Batch, GrpoConfig, load_grpo_config
from hermes_lab.training.lock import CurriculumLock
from hermes_lab.training.rounds import Rounds
from hermes_lab.types import Reward

LOCK = CurriculumLock(min_success=0.2, max_success=0.8, memory_rounds=3)
FAMILIES = ["easy", "medium", "hard"]
SAMPLES = 8


def measured(groups: Mapping[str, int], rates: Mapping[str, float]) -> dict[str, FamilyRound]:
    return {
        name: FamilyRound(count, count * SAMPLES, round(rates[name] * count * SAMPLES))
        for name, count in groups.items()
    }


def played(rates: Mapping[str, float], rounds: int, groups: int, seed: int = 0) -> list[dict[str, FamilyRound]]:
    """The rounds of a training whose families have these success rates."""
    history: list[dict[str, FamilyRound]] = []
    for _ in range(rounds):
        history.append(measured(draw_groups(list(rates), history, LOCK, groups, seed), rates))
    return history


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=16, max_size=16))
def test_a_family_is_measured_as_the_kinds_of_an_environment_are(shares: list[float]) -> None:
    """Also where work that is accepted after feedback earns something."""
    reward = RewardConfig(score=0.0, recovered=1.0)
    played = [
        replace(
            rollout(n, share), success=share == 1.0, reward=Reward(share - 1, {"recovered": share, "tool_calls": -1.0})
        )
        for n, share in enumerate(shares)
    ]
    kinds = Kinds(EnvSection(), reward)
    kinds.saw("family", played)
    assert rate("family", [{"family": family_round(4, played, reward)}], 3) == pytest.approx(kinds.rate("family"))


def test_success_alone_is_recorded_as_it_always_was() -> None:
    played = [rollout(n, float(n % 2), success=bool(n % 2)) for n in range(4)]
    assert msgspec.to_builtins(family_round(1, played, RewardConfig())) == {"groups": 1, "rollouts": 4, "solved": 2}


some_rates = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([0.0, 0.1, 0.5, 0.75, 1.0]), min_size=1)


@given(rates=some_rates, groups=st.integers(1, 9), rounds=st.integers(0, 8), seed=st.integers(0, 5))
def test_every_round_has_all_its_groups_in_nearly_equal_shares(
    rates: dict[str, float], groups: int, rounds: int, seed: int
) -> None:
    history = played(rates, rounds, groups, seed)
    drawn = draw_groups(list(rates), history, LOCK, groups, seed)
    chosen = families_in_window(list(rates), history, LOCK)
    assert sum(drawn.values()) == groups
    assert set(drawn) <= set(chosen)
    counts = [drawn.get(family, 0) for family in chosen]
    assert max(counts) - min(counts) <= 1
    assert drawn == draw_groups(list(rates), history, LOCK, groups, seed)


def test_families_in_the_window_are_drawn_alike() -> None:
    rates = {"a": 0.3, "b": 0.5, "c": 0.79, "never": 0.0}
    history = [measured(dict.fromkeys(rates, 1), {**rates, "a": 0.25, "c": 0.75})]
    draws = 6000
    totals = dict.fromkeys(rates, 0)
    for seed in range(draws):
        for family, count in draw_groups(list(rates), history, LOCK, 5, seed).items():
            totals[family] += count
    assert totals.pop("never") == 0
    deviation = (draws * 2 / 3 * 1 / 3) ** 0.5  # the rest of 2 groups goes to 2 of 3 families
    for count in totals.values():
        assert abs(count - draws * 5 / 3) < 4 * deviation


@given(rates=some_rates, groups=st.integers(6, 9), seed=st.integers(0, 5))
def test_no_family_is_left_out_for_longer_than_is_remembered(rates: dict[str, float], groups: int, seed: int) -> None:
    history = played(rates, 16, groups, seed)
    spans = [history[n : n + LOCK.memory_rounds + 1] for n in range(len(history) - LOCK.memory_rounds)]
    for span in spans:
        for family in rates:
            assert any(family in families for families in span)


def test_more_families_than_groups_all_get_their_turn() -> None:
    history = played(dict.fromkeys("abcdef", 0.0) | {"g": 0.5}, 60, 2)
    for family in "abcdef":
        assert sum(family in families for families in history) > 3


def test_a_family_outside_the_window_is_left_out_until_it_is_forgotten() -> None:
    history = played({"easy": 1.0, "medium": 0.5, "hard": 0.0}, 6, 6)
    assert [set(families) for families in history] == [
        {"easy", "medium", "hard"},
        *[{"medium"}] * 3,
        {"easy", "medium", "hard"},
        {"medium"},
    ]


def test_a_family_comes_back_once_the_policy_solves_it() -> None:
    hard = [measured({"hard": 2, "medium": 2}, {"hard": 0.0, "medium": 0.5})]
    assert families_in_window(["medium", "hard"], hard, LOCK) == ["medium"]
    moved = [*hard, *[measured({"medium": 4}, {"medium": 0.5})] * 3, measured({"hard": 2}, {"hard": 0.5})]
    assert rate("hard", moved, LOCK.memory_rounds) == 0.5  # what it was before is forgotten
    assert families_in_window(["medium", "hard"], moved, LOCK) == ["medium", "hard"]


def test_without_a_family_in_the_window_the_nearest_are_drawn() -> None:
    history = [measured(dict.fromkeys(["a", "b", "c"], 1), {"a": 0.0, "b": 0.125, "c": 1.0})]
    assert families_in_window(["a", "b", "c"], history, LOCK) == ["b"]
    assert describe_rates(["a", "b", "d"], history, LOCK) == "a 0 % (left out), b 12 % (left out), d not measured"


def test_a_family_without_a_judged_rollout_is_not_measured() -> None:
    assert rate("a", [{"a": FamilyRound(2, 0, 0)}], 3) is None


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GrpoConfig:
    """Six rounds of three families."""
    curriculum = {"min_success": 0.2, "max_success": 0.8, "memory_rounds": 3}
    made = made_up_config(
        tmp_path, monkeypatch, grpo_values={"groups_per_round": 4}, total_steps=6, curriculum=curriculum
    )
    families = {
        "easy": ("suite.options.ruled=1",),
        "medium": ("suite.options.ruled=3",),
        "hard": ("suite.options.ruled=7",),
    }
    return made.model_copy(update={"families": families, "heldout": ()})


class ByFamily(MadeUp):
    """The easy family is always solved, the hard one never, and half of the rollouts of the medium one."""

    def score(self, batch: Batch, n: int) -> float:
        return {1: 1.0, 3: float(n % 2), 7: 0.0}[batch.config.suite.options["ruled"]]


def drawn(config: GrpoConfig) -> Sequence[dict[str, int]]:
    return [{name: each.groups for name, each in one.families.items()} for one in done(config)]


@pytest.fixture
def narrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GrpoConfig:
    """Three families, of which a round draws one."""
    curriculum = {"min_success": 0.2, "max_success": 0.8, "memory_rounds": 3}
    made = made_up_config(
        tmp_path, monkeypatch, grpo_values={"groups_per_round": 1}, total_steps=6, curriculum=curriculum
    )
    ruled = {"easy": 1, "other": 1, "hard": 7}
    families = {name: (f"suite.options.ruled={number}",) for name, number in ruled.items()}
    return made.model_copy(update={"families": families, "heldout": ()})


def test_a_training_without_signal_ends_once_every_family_was_tried(narrow: GrpoConfig) -> None:
    with pytest.raises(ConfigError, match="no usable group in rounds 1 to 3 "):
        train(narrow, ByFamily(), silent)
    assert sorted(name for each in drawn(narrow) for name in each) == ["easy", "hard", "other"]
    with pytest.raises(ConfigError, match="no usable group in rounds 1 to 3 "):  # resumed, it says the same
        train(narrow.model_copy(update={"resume": True}), ByFamily(), silent)


def test_a_family_that_teaches_something_is_found_after_others_that_do_not(narrow: GrpoConfig) -> None:
    last = next(iter(drawn_last(narrow)))
    families = narrow.families | {last: ("suite.options.ruled=3",)}
    found = narrow.model_copy(update={"families": families, "out": f"{narrow.out}-2"})
    train(found, ByFamily(), silent)
    assert [set(each) for each in drawn(found)][2:5] == [{last}] * 3


def test_the_policy_is_evaluated_before_its_first_steps_after_rounds_without_signal(narrow: GrpoConfig) -> None:
    heldout = ("suite.name=ledger", "suite.split=heldout", "suite.options.ruled=3", "learning.arms=[off]")
    families = narrow.families | {next(iter(drawn_last(narrow))): ("suite.options.ruled=3",)}
    found = narrow.model_copy(update={"families": families, "heldout": heldout, "out": f"{narrow.out}-2"})
    rollouts, said = ByFamily(), list[str]()
    train(found, rollouts, said.append)
    assert [batch.config.suite.split for batch in rollouts.batches[:4]] == ["train", "train", "train", "heldout"]
    assert [each.steps for each in done(found)][:3] == [0, 0, 1]
    assert [check.step for check in Rounds(Path(found.out)).checks()] == [0, 2, 3]
    assert "before, " in said[-1]


def drawn_last(config: GrpoConfig) -> dict[str, int]:
    """What the third round draws, after two without a usable group."""
    with pytest.raises(ConfigError, match="no usable group"):
        train(config, ByFamily(), silent)
    return drawn(config)[2]


def test_a_training_draws_the_families_that_teach_something(config: GrpoConfig) -> None:
    said: list[str] = []
    rollouts = ByFamily()
    last = train(config, rollouts, said.append)
    rounds = drawn(config)
    assert [set(each) for each in rounds] == [set(FAMILIES), *[{"medium"}] * 3, set(FAMILIES), {"medium"}]
    assert all(sum(each.values()) == 4 for each in rounds)
    assert done(config)[0].families["easy"].solved == done(config)[0].families["easy"].rollouts > 0
    assert any(": 4 medium; success so far: easy 100 % (left out), medium 50 %, hard 0 % (left out)" in x for x in said)
    worlds = [(batch.first_world, batch.first_world + 1) for batch in rollouts.batches]
    assert len({world for pair in worlds for world in pair}) == 2 * len(worlds)  # never the same world twice
    assert read_card(last).runs == (str(Path(config.out) / "round-6" / "run-medium"),)
    rows = [json.loads(line) for line in (Path(config.out) / "metrics.jsonl").read_text().splitlines()]
    assert rows[1]["families"] == {"medium": {"groups": 4, "rollouts": 8, "solved": 4}}


def tasks(config: GrpoConfig) -> list[set[str]]:
    runs = [sorted((Path(config.out) / f"round-{n}").glob("run*")) for n in range(1, 7)]
    return [{f"{run.name} {e.task_id}" for run in each for e in read_episodes(run)} for each in runs]


def test_a_curriculum_killed_at_any_write_draws_the_same_tasks(
    config: GrpoConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(config, ByFamily(), silent)
    whole, wanted, kills = outcome(config), tasks(config), 0
    while True:
        again = config.model_copy(update={"out": f"{config.out}-{kills}", "adapters": f"{config.adapters}-{kills}"})
        with monkeypatch.context() as patch:
            countdown(patch, kills)
            try:
                train(again, ByFamily(), silent)
                break
            except Killed:
                pass
        begun = (Path(again.out) / "checkpoints" / "made_from.json").exists()
        train(again.model_copy(update={"resume": begun}), ByFamily(), silent)
        assert (outcome(again), tasks(again)) == (whole, wanted), f"killed before write {kills}"
        kills += 3  # every third write, for time
    assert kills > 30


def test_measured_rates_are_in_the_checkpoint_and_its_manifest(config: GrpoConfig) -> None:
    train(config, ByFamily(), silent)
    checkpoint = Path(config.out) / "checkpoints" / "checkpoint-6"
    assert [set(each) for each in json.loads((checkpoint / FILE).read_text())] == [set(each) for each in drawn(config)]
    assert FILE in json.loads((checkpoint / SEAL).read_text())["files"]
    again = config.model_copy(update={"resume": True})
    train(again, ByFamily(), silent)
    path = Path(config.out) / "round-2" / "done.json"
    changed = json.loads(path.read_text())
    changed["families"]["medium"]["solved"] = 0
    path.write_text(json.dumps(changed))
    with pytest.raises(ConfigError, match=r"the families of round 2 are not those in .*its done.json was changed"):
        train(again, ByFamily(), silent)


def test_a_changed_history_in_the_checkpoint_is_refused(config: GrpoConfig) -> None:
    train(config, ByFamily(), silent)
    (Path(config.out) / "checkpoints" / "checkpoint-6" / FILE).write_text("[]")
    with pytest.raises(ConfigError, match=rf"{FILE} was changed after training wrote it"):
        train(config.model_copy(update={"resume": True}), ByFamily(), silent)


@pytest.mark.parametrize("families", [{}, {"medium": ("suite.options.ruled=3",)}, {"easy": ("suite.options.ruled=2",)}])
def test_a_resume_with_other_families_is_refused(config: GrpoConfig, families: dict[str, tuple[str, ...]]) -> None:
    train(config, ByFamily(), silent)
    with pytest.raises(ConfigError, match=r"was started with another (families|rollouts)"):
        train(config.model_copy(update={"resume": True, "families": families}), ByFamily(), silent)


def test_the_order_of_families_is_part_of_the_training(config: GrpoConfig) -> None:
    train(config, ByFamily(), silent)
    turned = dict(reversed(config.families.items()))
    with pytest.raises(ConfigError, match="was started with another families"):
        train(config.model_copy(update={"resume": True, "families": turned}), ByFamily(), silent)


def test_families_need_a_lock_with_a_curriculum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = made_up_config(tmp_path, monkeypatch).model_copy(update={"families": {"a": ("suite.name=ledger",)}})
    with pytest.raises(ConfigError, match=r"families: .*lock\.yaml has no section curriculum"):
        train(config, MadeUp())
    assert not Path(config.out).exists()


def test_a_family_cannot_set_what_is_locked_nor_draw_held_out_tasks(config: GrpoConfig) -> None:
    loud = config.model_copy(update={"families": {"a": ("model.sampling.temperature=2",)}})
    with pytest.raises(ConfigError, match=r"grpo\.temperature is locked"):
        train(loud, MadeUp())
    held = config.model_copy(update={"families": {"a": ("suite.split=heldout",)}})
    with pytest.raises(ConfigError, match=r"families\.a: suite\.split 'heldout' is not in gate\.splits"):
        train(held, MadeUp())


def test_the_window_is_locked(config: GrpoConfig) -> None:
    for source in ("curriculum.min_success=0", "min_success=0"):
        with pytest.raises(ConfigError, match=r"curriculum\.min_success is locked at 0\.2"):
            load_grpo_config([f"lock={config.lock}", "rollouts=[suite.name=ledger]", source])


def test_a_family_is_a_name_that_a_folder_can_have(config: GrpoConfig) -> None:
    with pytest.raises(ConfigError, match="families"):
        load_grpo_config([f"lock={config.lock}", "rollouts=[suite.name=ledger]", "families={../up: [suite.seed=1]}"])
