"""What a plan counts: the tokens that run at once, and the work of a step."""

from pathlib import Path

import pytest
from fakes.training import hardware

from hermes_lab.errors import ConfigError
from hermes_lab.training.architecture import known
from hermes_lab.training.layout import Layout
from hermes_lab.training.lock import HardwareLock, LockedConfig, PreferenceLock, load_lock
from hermes_lab.training.memory import base_bytes, memory
from hermes_lab.training.plan import Place, Plan
from hermes_lab.training.speed import Speed
from hermes_lab.training.tokens import IGNORED, Row
from hermes_lab.training.workload import Micro, StepWork, grpo_step, layer_flops, pair_steps, sft_steps, step_flops

SIZES = known()["packaged"]
LOCK = load_lock(Path("configs/locks/sft-smoke.yaml"))


def row(length: int, labelled: range, *, shared: int = 4, own: int = 7) -> Row:
    ids = [1] * shared + [own] * (length - shared)
    return Row(ids, [ids[n] if n in labelled else IGNORED for n in range(length)])


ROWS = [row(10, range(6, 9), own=7), row(14, range(8, 14), own=8), row(8, range(5, 8), own=9)]


def with_hardware(**values: object) -> LockedConfig:
    return LOCK.model_copy(
        update={"hardware": HardwareLock(**hardware(precision="bfloat16", micro_tokens=4096) | values)}
    )


def test_padded_rows_share_their_prefix_and_end_at_their_last_label() -> None:
    (step,) = sft_steps(ROWS, 3, Layout(100))
    # The longest row has 14 tokens, of which the last predicts nothing and 4 are shared.
    assert step == StepWork(4, [Micro(3, 9, 12, prefix=4, masked=True)], tokens=32)
    assert step.ran() == 4 + 27


def test_packed_rows_are_one_sequence_without_padding() -> None:
    (step,) = sft_steps(ROWS, 3, Layout(100, packed=True))
    # 4 shared, then 8 - 4, 13 - 4 and 7 - 4: each row ends before its last label, the first row at token 8 of 10.
    assert step == StepWork(0, [Micro(1, 4 + 4 + 9 + 3, 12, masked=True)], tokens=32)


def test_rows_that_do_not_fit_together_run_one_after_another() -> None:
    (step,) = sft_steps(ROWS, 3, Layout(12))
    assert [micro.rows for micro in step.micros] == [2, 1]
    assert sum(micro.scored for micro in step.micros) == 12


def test_a_pair_runs_twice_and_is_padded_to_its_longer_half() -> None:
    (step,) = pair_steps([(ROWS[0], ROWS[1])], 4, gpu=True)
    assert step == StepWork(0, [Micro(2, 14, 9, masked=True)], tokens=24, forwards=1)


def test_the_head_of_preference_training_scores_every_token_on_a_cpu() -> None:
    (step,) = pair_steps([(ROWS[0], ROWS[1])], 4, gpu=False)
    assert [micro.scored for micro in step.micros] == [2 * 13]
    locked = LOCK.model_copy(update={"preference": PreferenceLock(beta=0.1)})
    whole, half = (StepWork(0, [Micro(2, 500, scored, masked=True)], 1000) for scored in (998, 499))
    cpu, gpu = (memory(SIZES, locked, [whole], device, bytes_each=2).logits for device in ("cpu", "cuda"))
    assert cpu == 998 * 32768 * 35
    assert gpu == 512 * 49152 * 14
    assert memory(SIZES, locked, [half], "cpu", bytes_each=2).logits == cpu / 2


def test_the_head_of_preference_training_runs_four_times() -> None:
    locked = LOCK.model_copy(update={"preference": PreferenceLock(beta=0.1)})
    step = StepWork(0, [Micro(2, 100, 10)], 200, forwards=1)
    assert step_flops(SIZES, locked, step).head == 4 * 2 * 10 * 576 * 49152


def test_planned_seconds_are_operations_by_speed_for_all_steps() -> None:
    """Each of 4 steps runs 1,000 tokens through 30 layers, and scores 10."""
    step = StepWork(0, [Micro(1, 1000, 10)], 1000)
    place, locked = (
        Place("this CPU", 1e12, gpu=False, here=True, shared=True),
        LOCK.model_copy(update={"total_steps": 4}),
    )
    needed = memory(SIZES, locked, [step], "cpu", bytes_each=2)
    plan = Plan("", SIZES, locked, place, [], [step, step], 4, needed, Speed(2e9, 1e9, "made up"))
    linear = 2 * 576 * 576 + 2 * 576 * 192 + 3 * 576 * 1536
    assert linear == SIZES.linear_parameters()
    lora = SIZES.lora_parameters(locked.lora_rank, locked.lora_target) / 30
    attention = 4 * 576 * 1000 * 1000 / 2
    layers = 30 * (4 * 1000 * linear + 6 * 1000 * lora + 3.5 * attention)
    assert plan.seconds == pytest.approx(4 * (layers / 2e9 + 4 * 10 * 576 * 49152 / 1e9))


def test_a_step_of_grpo_is_the_largest_that_the_lock_allows() -> None:
    step = grpo_step(LOCK, 4, 16, Layout())
    assert step.micros == [Micro(4, LOCK.max_token_length, 4 * LOCK.max_token_length)] * 4


def test_checkpointing_repeats_the_forward_pass() -> None:
    micro = Micro(1, 1000, 0)
    forward = layer_flops(SIZES, LOCK, micro, gradient=False)
    plain = layer_flops(SIZES, with_hardware(), micro)
    assert layer_flops(SIZES, with_hardware(gradient_checkpointing=True), micro) == pytest.approx(plain + forward)
    assert 2 * forward < plain < 2.5 * forward  # frozen weights have no gradient of their own


def test_the_head_costs_what_is_scored() -> None:
    step = StepWork(0, [Micro(1, 100, 10)], 100)
    assert step_flops(SIZES, LOCK, step).head == 4 * 10 * 576 * 49152


def test_memory_is_the_largest_step_and_less_in_4_bits_or_with_checkpointing() -> None:
    small, large = StepWork(0, [Micro(1, 100, 10)], 100), StepWork(0, [Micro(4, 1000, 900)], 4000)
    both = memory(SIZES, LOCK, [small, large], "cuda", bytes_each=2)
    assert both == memory(SIZES, LOCK, [large], "cuda", bytes_each=2)
    checkpointed = memory(SIZES, with_hardware(gradient_checkpointing=True), [large], "cuda", bytes_each=2)
    assert checkpointed.activations < both.activations / 8
    assert checkpointed.logits == both.logits
    quantized = with_hardware(quantization="nf4")
    assert base_bytes(SIZES, LOCK, 2) == 2 * SIZES.parameters()
    linear = 30 * SIZES.linear_parameters()
    left = base_bytes(SIZES, quantized, 2) - 2 * (SIZES.parameters() - linear)
    assert 0.5 * linear < left < 0.55 * linear


def test_a_target_that_is_no_pattern_is_told() -> None:
    with pytest.raises(ConfigError, match="lora_target: '\\[' is not a regular expression"):
        SIZES.adapted("[")
