"""A deterministic vLLM for the ledger suite: every other rollout of a task solves it, the others give up."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fakes.openai_server import Reply
from hermes_lab.config.schema import SuiteConfig
from hermes_lab.models.hermes_format import render_calls
from hermes_lab.tasks import load_suite
from hermes_lab.types import ToolCall

SOLVED, GIVEN_UP = "Done.", "I cannot do that."


class LedgerSampler:
    """The script of a `FakeOpenAIServer` that knows the oracle's actions for `count` tasks of each of these seeds.

    The tasks are those of world 0, and of the world with the number of the seed, as in the passes of an environment.

    `hopeless`: no rollout solves anything, so that all rewards of a group are equal. `fail_next` replies are a 400,
    which stops a rollout; `delay` is that of every reply, in seconds.
    """

    def __init__(
        self, count: int, seeds: Sequence[int] = (0, 1), splits: Sequence[str] = ("train",), *, hopeless: bool = False
    ) -> None:
        suite = load_suite(SuiteConfig(name="ledger"))
        self._commands: dict[str, list[str]] = {}
        for split in splits:
            for seed in seeds:
                for world in {0, seed}:
                    for task in suite.load(split=split, count=count, seed=seed, world=world):
                        self._commands[task.prompt] = [action.arguments["command"] for action in suite.oracle(task)]
        self._begun: Counter[str] = Counter()
        self.hopeless = hopeless
        self.fail_next = 0
        self.delay = 0.0

    def __call__(self, body: dict[str, Any]) -> Reply:
        if self.fail_next:
            self.fail_next -= 1
            return Reply(status=400, body={"error": {"message": "no such thing"}})
        return Reply(self._say(body["messages"]), delay=self.delay)

    def _say(self, messages: Sequence[dict[str, Any]]) -> str:
        said = [message["content"] for message in messages if message["role"] == "assistant"]
        task = next(message["content"] for message in messages if message["role"] == "user")
        commands = self._commands[task]
        if not said:
            self._begun[task] += 1
            if self.hopeless or self._begun[task] % 2 == 0:
                return GIVEN_UP
        if said and "<tool_call>" not in said[0]:
            return GIVEN_UP
        if len(said) == len(commands):
            return SOLVED
        return render_calls("", [ToolCall("c", "terminal", {"command": commands[len(said)]})])
