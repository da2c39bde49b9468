"""A locked field holds against a configuration, a flag, the environment, a resumed checkpoint and an edited card: each
attempt ends with a line that names the field, what it is locked at, and how to make a new lock."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.adapters import CONFIG, make_adapter, safetensors
from fakes.openai_server import FakeOpenAIServer
from typer.exceptions import TyperException

from hermes_lab.config.schema import SamplingConfig
from hermes_lab.errors import ConfigError
from hermes_lab.models.adapters import adapter_digest, identify, load_adapter
from hermes_lab.models.endpoint import Endpoint
from hermes_lab.records import write_json
from hermes_lab.runners.cli import app
from hermes_lab.runners.environments.lock import load_locked
from hermes_lab.training import lock_enforcement
from hermes_lab.training.adapters import find_adapter
from hermes_lab.training.checkpoint_manifest import SEAL, check_rates
from hermes_lab.training.config import TrainConfig, load_train_config
from hermes_lab.training.grpo_steps import RoundBatch, take_steps
from hermes_lab.training.lock import RUN_FIELDS, load_lock, lock_digest, write_lock
from hermes_lab.training.lock_enforcement import locked_evaluation_config, locked_run_config, refuse_environment
from hermes_lab.training.rounds import Policy, Rounds, RoundTraining
from hermes_lab.training.training_run import TrainingRun

LOCK = Path("tests/fakes/locks/sft.yaml")
REMEDY = "make a new lock with `hermes-lab train lock SRC -o LOCK`"
GRPO = """
grpo:
  {group_size: 4, groups_per_round: 3, steps_per_round: 5, temperature: 1.0, max_reply_tokens: 64, clip_epsilon: 0.2,
   max_batches_offpolicy: 0, max_num_workers: 8, worker_timeout: 60.0, steps_per_eval: 0, eval_limit_ratio: 0.5,
   inference_weight: 1.0}
"""


@pytest.fixture
def lock(tmp_path: Path) -> str:
    (tmp_path / "source.yaml").write_text(LOCK.read_text() + GRPO)
    write_lock(tmp_path / "source.yaml", tmp_path / "lock.yaml")
    return str(tmp_path / "lock.yaml")


@pytest.fixture
def sources(tmp_path: Path, lock: str) -> list[str]:
    (tmp_path / "run" / "episodes").mkdir(parents=True)
    (tmp_path / "train.yaml").write_text(f"lock: {lock}\ndata: [{tmp_path}/run]\n")
    return [str(tmp_path / "train.yaml")]


@pytest.mark.parametrize(
    ("attempt", "field", "value"),
    [
        ("learning_rate=1", "learning_rate", "0.0015"),
        ("lock.learning_rate=1", "learning_rate", "0.0015"),
        ("rollout_server_url=http://evil", "rollout_server_url", "'http://127.0.0.1:8000/v1'"),
        ("grpo.temperature=2", "grpo.temperature", "1.0"),
        ("lock.grpo.temperature=2", "grpo.temperature", "1.0"),
        ("grpo={temperature: 2, group_size: 9}", "grpo.temperature", "1.0"),
        ("group_size=9", "grpo.group_size", "4"),
        ("preference.beta=9", "preference.beta", "nothing (there is no such section)"),
    ],
)
@pytest.mark.parametrize("by", ["override", "file"])
def test_a_configuration_cannot(
    sources: list[str], lock: str, tmp_path: Path, attempt: str, field: str, value: str, by: str
) -> None:
    if by == "file":
        path, _, content = attempt.partition("=")
        text = content
        for part in reversed(path.split(".")):
            text = f"{{{part}: {text}}}"
        attempt = str(tmp_path / "more.yaml")
        Path(attempt).write_text(text)
    with pytest.raises(ConfigError) as error:
        load_train_config([*sources, attempt])
    assert str(error.value) == f"{attempt}: {field} is locked at {value} by {lock}; {REMEDY}"


@pytest.mark.parametrize("flag", [["-c", "learning_rate=1"], ["--config", "grpo.temperature=2"]])
@pytest.mark.parametrize("command", ["sft", "preference"])
def test_a_flag_cannot(sources: list[str], command: str, flag: list[str]) -> None:
    with pytest.raises(ConfigError, match=rf"(learning_rate|temperature) is locked at .*; {REMEDY}"):
        app(["train", command, "-c", *sources, *flag], standalone_mode=False)


def test_there_is_no_flag_for_a_locked_field(sources: list[str]) -> None:
    with pytest.raises(TyperException, match="No such option: --learning-rate"):
        app(["train", "sft", "-c", *sources, "--learning-rate", "1"], standalone_mode=False)


@pytest.mark.parametrize(
    ("variable", "value", "field"),
    [
        ("WORLD_SIZE", "2", "batch_size, which is locked at 8"),
        ("OMPI_COMM_WORLD_SIZE", "4", "batch_size, which is locked at 8"),
        ("LOCAL_RANK", "1", "batch_size, which is locked at 8"),
        ("ACCELERATE_USE_DEEPSPEED", "true", "learning_rate, which is locked at 0.0015"),
        ("ACCELERATE_USE_FSDP", "1", "batch_size, which is locked at 8"),
        ("WANDB_DISABLED", "true", "use_wandb, which is locked at True"),
        ("WANDB_MODE", "disabled", "use_wandb, which is locked at True"),
    ],
)
def test_an_environment_variable_cannot(
    monkeypatch: pytest.MonkeyPatch, lock: str, variable: str, value: str, field: str
) -> None:
    locked = load_lock(Path(lock)).model_copy(update={"use_wandb": True})
    refuse_environment(locked)
    monkeypatch.setenv(variable, value)
    with pytest.raises(
        ConfigError, match=rf"^environment variable {variable}={value}: it would change {field}; .*{REMEDY}"
    ):
        refuse_environment(locked)


def test_a_training_asks_the_environment_first(monkeypatch: pytest.MonkeyPatch, sources: list[str]) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="WORLD_SIZE=2: it would change batch_size"):
        app(["train", "sft", "-c", *sources], standalone_mode=False)


@pytest.mark.parametrize("value", ["ACCELERATE_USE_FSDP=false", "WORLD_SIZE=1", "LOCAL_RANK=0", "WANDB_MODE=offline"])
def test_a_variable_that_changes_nothing_is_let_be(monkeypatch: pytest.MonkeyPatch, lock: str, value: str) -> None:
    monkeypatch.setenv(*value.split("="))
    refuse_environment(load_lock(Path(lock)).model_copy(update={"use_wandb": True}))


@pytest.mark.parametrize(
    ("attempt", "field", "value"),
    [
        ("model.sampling.temperature=0.2", "grpo.temperature", "1.0"),
        ("model.sampling.top_p=0.5", "grpo.temperature", "1.0"),
        ("model.sampling={max_tokens: 9}", "grpo.max_reply_tokens", "64"),
        ("model.base_url=http://evil/v1", "rollout_server_url", "'http://127.0.0.1:8000/v1'"),
        ("run.samples=2", "grpo.group_size", "4"),
        ("run.concurrency=1", "grpo.max_num_workers", "8"),
        ("agent.max_seconds=1", "grpo.worker_timeout", "60.0"),
    ],
)
def test_the_configuration_of_the_rollouts_cannot(lock: str, attempt: str, field: str, value: str) -> None:
    with pytest.raises(ConfigError) as error:
        locked_run_config(["model.name=packaged", attempt], load_lock(Path(lock)), lock)
    assert str(error.value).startswith(f"{attempt}: ")
    assert str(error.value).endswith(f": {field} is locked at {value} by {lock}; {REMEDY}")


OTHER_SAMPLING = (
    "model.sampling.top_k=1",
    "model.sampling.min_p=0.5",
    "model.sampling.frequency_penalty=2",
    "model.sampling.presence_penalty=-1",
    "model.sampling.stop=[x]",
    "model.sampling.seed=1",
    "model.extra_body={logit_bias: {a: 100}}",
    "model.extra_body={top_k: 1}",
    "model.extra_body={repetition_penalty: 2}",
    "model.extra_body={chat_template: other}",
)
SAME_SAMPLING = (
    "model.sampling={top_k: -1, min_p: 0, frequency_penalty: 0, presence_penalty: 0, stop: [], seed: null}",
    "model.sampling={top_k: 0, min_p: null, frequency_penalty: null}",
    "model.extra_body={chat_template_kwargs: {enable_thinking: false}}",
    "model.extra_body={user: me, priority: 1}",
)


@pytest.mark.parametrize("attempt", OTHER_SAMPLING)
def test_no_other_field_changes_how_rollouts_are_sampled(lock: str, attempt: str) -> None:
    refused = (
        rf"{attempt.partition('=')[0]}.* how rollouts are sampled: grpo.temperature is locked at 1.0 by .*{REMEDY}"
    )
    with pytest.raises(ConfigError, match=refused):
        locked_run_config([attempt], load_lock(Path(lock)), lock)
    with pytest.raises(ConfigError, match=refused):
        load_locked([attempt], Path(lock))
    locked_evaluation_config([attempt], load_lock(Path(lock)), lock)  # nothing is trained on it


@pytest.mark.parametrize("given", SAME_SAMPLING)
def test_fields_that_leave_the_sampling_as_it_is_are_accepted(lock: str, given: str) -> None:
    run = locked_run_config([given], load_lock(Path(lock)), lock)
    assert run.model.extra_body == load_locked([given], Path(lock)).model.extra_body


def test_every_field_of_sampling_is_locked_or_checked() -> None:
    decided = {name.rpartition(".")[2] for name in (*RUN_FIELDS, "sampling.top_p") if "sampling." in name}
    assert decided | set(lock_enforcement._NEUTRAL) == set(SamplingConfig.model_fields)


def test_the_rollouts_take_what_the_lock_decides_and_may_say_the_same(lock: str) -> None:
    config = locked_run_config(["agent.max_seconds=60", "model.sampling.temperature=1"], load_lock(Path(lock)), lock)
    sampling = config.model.sampling
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens) == (1.0, 1.0, 64)
    assert (config.run.samples, config.run.concurrency, config.agent.max_seconds) == (4, 8, 60.0)
    assert config.model.base_url == "http://127.0.0.1:8000/v1"


@pytest.fixture
def training_run(tmp_path: Path, sources: list[str], lock: str) -> TrainingRun:
    """A training that was killed after its checkpoint of step 5."""
    config = TrainConfig(lock=lock, data=(str(tmp_path / "run"),), adapters=str(tmp_path / "adapters"))
    begun = TrainingRun.begin(config, {"lock": lock_digest(load_lock(Path(lock))), "data": "d"})
    checkpoint = begun.checkpoints / "checkpoint-5"
    checkpoint.mkdir()
    for name in (
        "optimizer.pt",
        "scheduler.pt",
        "trainer_state.json",
        "adapter_config.json",
        "adapter_model.safetensors",
    ):
        (checkpoint / name).write_text("{}")
    begun.write_manifest(5)
    return TrainingRun.begin(config.model_copy(update={"resume": True}), begun.made_from())


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("optimizer.pt", "learning_rate is locked at 0.0015"),
        ("scheduler.pt", "learning_rate is locked at 0.0015"),
        ("trainer_state.json", "total_steps is locked at 150"),
        ("adapter_config.json", "lora_rank is locked at 8"),
        ("training_args.bin", "learning_rate is locked at 0.0015"),  # one more than was written
    ],
)
def test_a_resumed_checkpoint_cannot(training_run: TrainingRun, lock: str, name: str, field: str) -> None:
    checkpoint = training_run.last_checkpoint()
    assert checkpoint
    (checkpoint / name).write_text('{"more": 1}')
    with pytest.raises(ConfigError) as error:
        training_run.last_checkpoint()
    wanted = f"resume: {checkpoint / name} was changed after training wrote it. It holds {field} by {lock}; {REMEDY}."
    assert str(error.value).startswith(wanted.replace(f"holds {field}", f"holds {field.split()[0]}: {field}"))


def test_weights_or_a_seal_that_were_changed_are_refused_too(training_run: TrainingRun) -> None:
    checkpoint = training_run.last_checkpoint()
    assert checkpoint
    (checkpoint / "adapter_model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"adapter_model.safetensors was changed after training wrote it"):
        training_run.last_checkpoint()
    (checkpoint / SEAL).write_text("[]")
    with pytest.raises(ConfigError, match=r"seal.json is not a checkpoint manifest; start without resume"):
        training_run.last_checkpoint()


@pytest.mark.parametrize(("without", "newest"), [((6,), 5), ((5, 6), 0)])
def test_a_round_takes_no_steps_of_an_earlier_one(
    tmp_path: Path, lock: str, without: tuple[int, ...], newest: int
) -> None:
    rounds = Rounds.begin(tmp_path / "out", {"lock": "l"}, resume=False)
    training_run = RoundTraining(tmp_path / "grpo-v4", lock, rounds.checkpoints, {})
    for step in (5, 6):
        (rounds.checkpoints / f"checkpoint-{step}").mkdir()
        training_run.write_manifest(step)
    for step in without:
        (rounds.checkpoints / f"checkpoint-{step}" / SEAL).unlink()
    locked = load_lock(Path(lock))
    assert locked.grpo
    round_batch = RoundBatch((), Policy("", "packaged"), begin=6, end=8)
    with pytest.raises(ConfigError) as error:
        take_steps(locked, locked.grpo, tmp_path / "nothing", round_batch, training_run, print)
    told = str(error.value)
    assert f"is at step {newest}, but the round trains steps 6 to 8" in told
    assert f"grpo.steps_per_round is locked at 5 by {lock}; {REMEDY}" in told


def test_a_checkpoint_of_another_training_is_refused(training_run: TrainingRun) -> None:
    write_json(training_run.checkpoints / "made_from.json", training_run.made_from() | {"data": "other"})
    with pytest.raises(ConfigError, match="checkpoint-5 belongs to another training; start without resume"):
        training_run.last_checkpoint()


class Schedule:
    """As torch has it: rates by step, over base rates."""

    def __init__(self, base: float, step: int) -> None:
        self.base_lrs, self.last_epoch = [base], step
        self.lr_lambdas = [lambda step: 1 - step / 10]


@pytest.mark.parametrize(("base", "initial", "rate"), [(0.1, 0.001, 0.0005), (0.001, 0.1, 0.0005), (0.001, 0.001, 0.1)])
def test_a_restored_rate_is_looked_at_whatever_the_seal_says(
    lock: str, base: float, initial: float, rate: float
) -> None:
    check_rates(0.001, [{"lr": 0.0005, "initial_lr": 0.001}], Schedule(0.001, 5), lock)
    with pytest.raises(ConfigError, match=rf"another learning rate: learning_rate is locked at 0.0015 .*{REMEDY}"):
        check_rates(0.001, [{"lr": rate, "initial_lr": initial}], Schedule(base, 5), lock)


def edit(folder: Path, change: Callable[[dict], None]) -> None:  # type: ignore[type-arg]
    path = folder / "card.json"
    card = json.loads(path.read_text())
    change(card)
    path.write_text(json.dumps(card))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda c: c["locked"].update(learning_rate=1.0), r"locked.learning_rate is 1.0, but was locked at 0.0015"),
        (lambda c: c["locked"].update(lora_rank=64), r"locked.lora_rank is 64, but the adapter has 8"),
        (lambda c: c["locked"].update(lora_target="q_proj"), r"locked.lora_target is 'q_proj', but the adapter has \["),
        (lambda c: c["locked"].pop("seed"), r"locked.seed is None, but was locked at 0"),
        (lambda c: c.update(lock_digest="0" * 64), rf"lock_digest is '{'0' * 64}', but the adapter was trained with"),
        (lambda c: c.update(base_model="other/model"), r"base_model is 'other/model', but locked at 'packaged'"),
        (lambda c: c.update(digest="0" * 64), rf"digest is '{'0' * 64}', but the adapter's files have the digest"),
    ],
)
def test_an_edited_card_cannot(tmp_path: Path, change: Callable[[dict], None], problem: str) -> None:  # type: ignore[type-arg]
    folder = make_adapter(tmp_path)
    identify(folder)
    edit(folder, change)
    told = rf"card.json: {problem}.*{REMEDY}"
    with pytest.raises(ConfigError, match=told):
        identify(folder)  # loaded, merged or served
    with pytest.raises(ConfigError, match=told):
        find_adapter(str(folder), tmp_path)  # a parent


def test_an_adapter_that_does_not_name_its_lock_is_held_to_its_digest(tmp_path: Path) -> None:
    folder = make_adapter(tmp_path, metadata={})
    identify(folder)
    edit(folder, lambda card: card["locked"].update(learning_rate=1.0))
    with pytest.raises(ConfigError, match=r"locked: its values do not match lock_digest .*" + REMEDY):
        identify(folder)


@pytest.mark.anyio
async def test_an_edited_card_is_not_loaded_and_a_foreign_adapter_is(tmp_path: Path) -> None:
    ours, foreign = make_adapter(tmp_path), tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "adapter_config.json").write_text(json.dumps(CONFIG))
    (foreign / "adapter_model.safetensors").write_bytes(safetensors({"hermes_lab.lock": "whatever"}))
    edit(ours, lambda card: card["locked"].update(seed=7))
    async with FakeOpenAIServer(["x"]) as server, Endpoint(server.base_url) as endpoint:
        with pytest.raises(ConfigError, match=r"locked\.seed is 7"):
            await load_adapter(endpoint, ours)
        assert server.adapters == {}
        assert (await load_adapter(endpoint, foreign)).digest == adapter_digest(foreign)
