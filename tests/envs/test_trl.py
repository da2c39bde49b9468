"""What TRL is given: columns, rollouts by the trainer's weights, a class whose methods are the agent's tools."""

import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.adapters import write_lora
from fakes.episodes import scored_group
from fakes.openai_server import END, LOGPROB, FakeOpenAIServer, Reply, running

from hermes_lab.config.schema import RunConfig
from hermes_lab.config.sources import load_config
from hermes_lab.envs.trl import (
    RolloutFunc,
    environment_rows,
    episode_reward,
    make_environment,
    make_rollout_func,
    prompt_rows,
    rollout_columns,
)
from hermes_lab.errors import ConfigError, HermesLabError
from hermes_lab.models.hermes_format import render_calls
from hermes_lab.tasks import load_suite
from hermes_lab.tools.toolbox import check_toolsets
from hermes_lab.types import Episode, ToolCall

EOS = 7
WRITE = render_calls("", [ToolCall("c", "terminal", {"command": "touch a.txt"})])


@pytest.fixture
def tasks(tmp_path: Path) -> str:
    file = tmp_path / "tasks.jsonl"
    rows = [{"id": f"t{n}", "prompt": f"Make a.txt, number {n}.", "verify": "test -f a.txt"} for n in range(2)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"suite.path={file}"


@dataclass
class FakeTrainer:
    """What a `rollout_func` looks at of TRL's trainer."""

    step: int = 0
    temperature: float = 1.0
    processes: int = 1
    learns: bool = True
    saved: list[str] = field(default_factory=list)

    @property
    def model(self) -> Any:
        return SimpleNamespace(peft_config={}, save_pretrained=self._save)

    def _save(self, folder: Path) -> None:
        write_lora(folder, f"weights after step {self.step * self.learns}")
        self.saved.append(str(folder))

    @property
    def state(self) -> Any:
        return SimpleNamespace(global_step=self.step)

    @property
    def args(self) -> Any:
        return SimpleNamespace(temperature=self.temperature, top_p=1.0)

    @property
    def accelerator(self) -> Any:
        return SimpleNamespace(num_processes=self.processes)

    processing_class = SimpleNamespace(eos_token_id=EOS)


def every_other_solves() -> Any:
    """A model that solves every second rollout of a task: it writes the file, then answers; the others only answer."""
    begun = count()

    def script(body: dict[str, Any]) -> str:
        if any(turn["role"] == "assistant" for turn in body["messages"]):
            return "Done."
        return WRITE if next(begun) % 2 else "Done."

    return script


@pytest.fixture
def server() -> Iterator[FakeOpenAIServer]:
    with running(FakeOpenAIServer(every_other_solves())) as server:
        yield server


def config_of(server: FakeOpenAIServer, *sources: str) -> RunConfig:
    model = ["model.name=fake", f"model.base_url={server.base_url}", "model.sampling.temperature=1.0"]
    return load_config(
        [*model, "agent.tool_format=hermes", "agent.toolsets=[terminal]", "agent.prompt=compact", *sources]
    )


@pytest.fixture
def config(server: FakeOpenAIServer, tasks: str) -> RunConfig:
    return config_of(server, tasks)


@pytest.fixture
def seen() -> list[Episode]:
    """The episodes of `rollout`."""
    return []


@pytest.fixture
def rollout(server: FakeOpenAIServer, config: RunConfig, seen: list[Episode], tmp_path: Path) -> Iterator[RolloutFunc]:
    """Once it is closed, no adapter is served or left on the disk."""
    made = make_rollout_func(config, tmp_path / "adapters", seen=seen.append)
    yield made
    made.close()
    assert not server.adapters
    assert not list(tmp_path.glob("adapters/*"))


def prompts(config: RunConfig, size: int) -> list[Any]:
    return [row["prompt"] for row in prompt_rows(config) for _ in range(size)]


def test_each_prompt_gets_the_sampled_tokens_of_a_rollout_of_its_own_task(
    config: RunConfig, rollout: RolloutFunc, seen: list[Episode]
) -> None:
    columns = rollout(prompts(config, 2), FakeTrainer())
    assert [episode.task_id for episode in seen] == ["t0", "t0", "t1", "t1"]
    assert [episode.sample for episode in seen] == [0, 1, 0, 1]
    assert sorted(columns["reward"]) == [0.0, 0.0, 1.0, 1.0]
    assert episode_reward(**columns) == [episode.score for episode in seen]
    for n, episode in enumerate(seen):
        prompt, completion, mask = columns["prompt_ids"][n], columns["completion_ids"][n], columns["env_mask"][n]
        assert f"number {episode.task_id[1]}." in bytes(prompt).decode()
        replies = WRITE + "\0Done.\0" if episode.success else "Done.\0"
        assert bytes(token for token, on in zip(completion, mask, strict=True) if on).decode() == replies
        assert [logprob == LOGPROB for logprob in columns["logprobs"][n]] == [one == 1 for one in mask]
        assert completion[-1] == END


def test_every_step_is_sampled_by_that_steps_weights_under_a_name_of_their_own(
    server: FakeOpenAIServer, config: RunConfig, rollout: RolloutFunc, seen: list[Episode]
) -> None:
    trainer = FakeTrainer()
    served = []
    for trainer.step in (0, 0, 1):
        rollout(prompts(config, 1), trainer)
        (name,) = server.adapters
        served.append(name)
        assert {request["model"] for request in server.requests} == {name}
        server.requests.clear()
    assert len(trainer.saved) == 2
    assert (served[0] == served[1], served[1] == served[2]) == (True, False)
    digests = [episode.model.adapter_digest for episode in seen]
    assert [f"policy-{digest[:12]}" for digest in digests] == [name for name in served for _ in range(2)]
    assert [episode.round for episode in seen] == [0, 0, 0, 0, 1, 1]


def test_weights_that_a_step_left_alone_keep_their_name(
    server: FakeOpenAIServer, rollout: RolloutFunc, config: RunConfig
) -> None:
    trainer = FakeTrainer(learns=False)
    served = []
    for trainer.step in (0, 1):
        rollout(prompts(config, 1), trainer)
        served.append(dict(server.adapters))
    assert len(served[0]) == 1
    assert served[0] == served[1]


def test_a_rollout_that_failed_is_masked_and_has_no_reward(tasks: str, tmp_path: Path) -> None:
    solve = every_other_solves()

    def script(body: dict[str, Any]) -> str | Reply:
        return Reply(status=400, body={"error": "out of order"}) if "number 1" in str(body) else solve(body)

    said: list[str] = []
    with running(FakeOpenAIServer(script)) as server:
        config = config_of(server, tasks)
        rollout = make_rollout_func(config, tmp_path / "adapters", say=said.append)
        columns = rollout(prompts(config, 2), FakeTrainer())
        rollout.close()
    assert columns["reward"][2:] == [None, None]
    assert [columns[name][2] for name in ("prompt_ids", "completion_ids", "env_mask")] == [[EOS], [EOS], [0]]
    assert sum(columns["env_mask"][0]) > 0
    assert any("2 of 4 rollouts masked: model:" in line for line in said)


def test_rollouts_that_all_fail_are_an_error_and_no_step(tasks: str, tmp_path: Path) -> None:
    with running(FakeOpenAIServer([Reply(status=400, body={"error": "out of order"})])) as server:
        config = config_of(server, tasks)
        rollout = make_rollout_func(config, tmp_path / "adapters")
        with pytest.raises(HermesLabError, match=r"none of 2 rollouts can be trained on; the first: model: .*out of"):
            rollout(prompts(config, 1), FakeTrainer())
        rollout.close()


@pytest.mark.parametrize(
    ("trainer", "message"),
    [
        (FakeTrainer(temperature=0.7), r"model\.sampling\.temperature: is 1, and the trainer's 0\.7"),
        (FakeTrainer(processes=2), "several processes"),
        (SimpleNamespace(model=SimpleNamespace()), "no LoRA adapter"),
    ],
)
def test_a_trainer_that_does_not_fit_is_refused(
    rollout: RolloutFunc, server: FakeOpenAIServer, trainer: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        rollout([], trainer)
    assert not server.requests


def test_a_prompt_of_another_configuration_is_refused(rollout: RolloutFunc) -> None:
    for prompt in ("text", [{"role": "user", "content": "?"}], [{"role": "user", "content": "?", "task_id": "other"}]):
        with pytest.raises(ConfigError, match="make the rows with prompt_rows"):
            rollout([prompt], FakeTrainer())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("model.provider=vllm", "does not persist between trainer steps"),
        ("model.adapter=mine", "the trainer's weights"),
    ],
)
def test_a_model_that_is_not_the_trainers_is_refused(source: str, message: str, tasks: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        make_rollout_func(load_config([tasks, source]), tmp_path)


def test_the_columns_of_groups_part_where_sampling_began() -> None:
    group = scored_group(
        token_ids=((1, 2, 3, 4, 5), (1, 6)),
        masks=((0, 0, 1, 0, 1), (0, 1)),
        logprobs=((None, None, -0.5, None, -0.25), (None, -1.0)),
    )
    assert rollout_columns([group]) == {
        "prompt_ids": [[1, 2], [1]],
        "completion_ids": [[3, 4, 5], [6]],
        "env_mask": [[1, 0, 1], [1]],
        "logprobs": [[-0.5, 0.0, -0.25], [-1.0]],
        "reward": [1.0, 0.0],
        "advantage": list(group.advantages),
    }


@pytest.fixture
def ledger() -> RunConfig:
    return load_config(["suite.name=ledger", "suite.count=2", "agent.prompt=compact"])


def test_the_public_methods_are_the_agents_tools_and_nothing_else(ledger: RunConfig) -> None:
    found = inspect.getmembers(make_environment(ledger), predicate=inspect.isfunction)
    public = {name for name, _ in found if not name.startswith("_")}
    assert public - {"reset", "get_reward"} == check_toolsets(ledger.agent.toolsets)
    terminal = dict(found)["terminal"]
    assert str(inspect.signature(terminal)) == "(self, *, command: str, timeout: float = None, workdir: str = None)"
    assert inspect.getdoc(terminal).startswith("Run a bash command.")


@pytest.mark.parametrize("make", [make_environment, environment_rows])
def test_another_program_is_refused(make: Callable[[RunConfig], object]) -> None:
    with pytest.raises(ConfigError, match=r"^agent\.program: "):
        make(load_config(["suite.name=ledger", "agent.program=codex"]))


def test_an_environment_pays_the_oracle_1_and_nothing_0(ledger: RunConfig) -> None:
    suite = load_suite(ledger.suite)
    by_id = {task.id: task for task in suite.load(split="train", count=2, seed=0, world=0)}
    environment = make_environment(ledger)()
    for row in environment_rows(ledger):
        task = by_id[row["task_id"]]
        assert environment.reset(**row) == task.prompt
        for move in suite.oracle(task):
            environment.terminal(**move.arguments)
        assert environment.get_reward() == 1.0
        environment.reset(**row)
        assert environment.get_reward() == 0.0


def test_tools_answer_what_the_sandbox_does_and_calls_after_the_end_do_not_run(ledger: RunConfig) -> None:
    (row, _) = environment_rows(ledger)
    environment = make_environment(ledger)()
    environment.reset(**row)
    assert json.loads(environment.terminal(command="echo hello"))["output"] == "hello\n"
    assert "error" in json.loads(environment.read_file(path="missing"))
    assert "invalid arguments" in environment.terminal(cmd="ls")
    environment.get_reward()
    assert json.loads(environment.terminal(command="echo hello")) == {"error": "not run: the episode is over"}


def test_a_budget_ends_the_episode_and_not_the_training(ledger: RunConfig) -> None:
    ledger = load_config(["agent.max_iterations=1"], base=ledger.model_dump(mode="json"))
    (row, _) = environment_rows(ledger)
    environment = make_environment(ledger)()
    environment.reset(**row)
    assert "hello" in environment.terminal(command="echo hello")
    assert "error" in json.loads(environment.terminal(command="echo again"))
    assert environment.get_reward() == 0.0


def test_the_system_prompt_of_a_row_names_no_tools_since_the_template_does(ledger: RunConfig) -> None:
    system, user = environment_rows(ledger)[0]["prompt"]
    assert (system["role"], user) == ("system", {"role": "user", "content": ""})
    assert system["content"].startswith("You are Hermes")
    assert "<tools>" not in system["content"]


def test_a_failed_sandbox_is_no_reward_rather_than_0(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    file.write_text('{"id": "t", "prompt": "Make a.txt.", "verify": "test -f a.txt", "setup": ["false"]}\n')
    config = load_config([f"suite.path={file}"])
    environment = make_environment(config)()
    assert environment.reset(task_id="t") == "Make a.txt."
    assert environment.get_reward() is None
    with pytest.raises(HermesLabError, match="setup command 'false'"):
        environment_rows(config)


def test_an_environment_refuses_what_it_cannot_be(ledger: RunConfig) -> None:
    environment = make_environment(ledger)()
    with pytest.raises(ConfigError, match="make the rows with environment_rows"):
        environment.reset(task_id="other")
    with pytest.raises(ConfigError, match="call reset first"):
        environment.terminal(command="ls")
    for source, message in (
        ("agent.distribution=default", "same tools for every task"),
        ("agent.toolsets=[terminal,delegation]", "delegate_task"),
    ):
        with pytest.raises(ConfigError, match=message):
            make_environment(load_config([source], base=ledger.model_dump(mode="json")))
