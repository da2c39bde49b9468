from collections.abc import Callable

import pytest

from hermes_lab.config.digest import config_digest
from hermes_lab.config.schema import RunConfig
from hermes_lab.knowledge import Knowledge
from hermes_lab.models.scripted import ScriptedModel, TaskAwarePolicy
from hermes_lab.protocols import Sandbox
from hermes_lab.rollout import RolloutContext, RolloutSpec, run_episode
from hermes_lab.skills.library import Library
from hermes_lab.tasks.adapters import bfcl
from hermes_lab.tasks.adapters._bfcl_entries import CATEGORIES, read_entries
from hermes_lab.tasks.adapters._oracle import Part, _next, prove
from hermes_lab.types import Episode, Message, Task
from tests.tasks.adapters.conftest import needs

pytestmark = [pytest.mark.anyio, needs("bfcl_eval", "bfcl")]


@pytest.mark.parametrize("category", CATEGORIES)
async def test_the_packaged_solutions_are_accepted(category: str, open_sandbox: Callable[[], Sandbox]) -> None:
    suite = bfcl.load()
    proof = await prove(suite, suite.load(split=category, count=12, seed=0, world=0), open_sandbox)
    assert (proof.failures, proof.solved) == ((), 12)


async def test_a_solution_that_uses_what_is_held_out_is_the_one_that_is_refused(
    open_sandbox: Callable[[], Sandbox],
) -> None:
    early = [
        entry.id
        for entry in read_entries("miss_func")
        for turn, functions in entry.held_out.items()
        for call in (call for solution in entry.solution[:turn] for call in solution)
        if call.partition("(")[0] in {function.name for function in functions}
    ]
    assert early == ["multi_turn_miss_func_49"]
    tasks = [task for task in bfcl.load().load(split="miss_func", count=0, seed=0, world=0) if task.id in early]
    proof = await prove(bfcl.load(), tasks, open_sandbox)
    ((_, episode),) = proof.rows
    assert "execution_response_mismatch" in str(episode.verdicts[-1].reasons)
    assert (len(proof.flaws), proof.failures) == (1, ())


def test_every_category_has_its_entries() -> None:
    calls = {c: sum(len(turn) for entry in read_entries(c) for turn in entry.solution) for c in CATEGORIES}
    assert calls == {"base": 1142, "miss_func": 1140, "miss_param": 1140, "long_context": 1203}
    assert all(len(read_entries(category)) == 200 for category in CATEGORIES)


def test_every_schema_is_json_schema() -> None:
    known = {"object", "array", "string", "integer", "number", "boolean"}

    def types(node: object) -> set[object]:
        if isinstance(node, list):
            return set().union(*map(types, node)) if node else set()
        if not isinstance(node, dict):
            return set()
        own = {node["type"]} if isinstance(node.get("type"), str) else set()
        return own.union(*(types(child) for key, child in node.items() if key not in ("default", "enum")))

    functions = {f.name: f for entry in read_entries("base") for f in entry.functions}
    assert types([f.parameters for f in functions.values()]) <= known
    assert all(f.parameters["type"] == "object" for f in functions.values())


async def run(task: Task, parts: tuple[Part, ...], open_sandbox: Callable[[], Sandbox]) -> Episode:
    def play(messages: list[Message]) -> Message:
        return _next(parts, messages)

    config = RunConfig()
    model = ScriptedModel(TaskAwarePolicy(lambda _: play))  # type: ignore[arg-type,return-value]
    lab = RolloutContext(config, config_digest(config), bfcl.load(), model, open_sandbox)
    job = RolloutSpec(task, lane="main", round=0, sample=0, experience=0, place=0, review="never")
    return await run_episode(lab, job, Knowledge(Library()))


async def test_doing_nothing_and_doing_half_are_refused(open_sandbox: Callable[[], Sandbox]) -> None:
    (task,) = bfcl.load().load(split="base", count=1, seed=0, world=0)
    whole = bfcl.script(task)
    for parts, reason in (((), "empty_turn_model_response"), (whole[:-1], "empty_turn"), (whole, "")):
        episode = await run(task, parts, open_sandbox)
        assert episode.verdicts, episode.error
        assert episode.success is not bool(reason)
        assert reason in episode.verdicts[0].reasons.get("checker", "")
    async with open_sandbox() as sandbox:
        unplayed = await bfcl.load().verify(task, sandbox, "Done.")
    assert (unplayed.score, "force_terminated" in unplayed.reasons["checker"]) == (0.0, True)


async def test_held_out_functions_are_described_when_they_come(open_sandbox: Callable[[], Sandbox]) -> None:
    (task,) = bfcl.load().load(split="miss_func", count=1, seed=0, world=0)
    episode = await run(task, bfcl.script(task), open_sandbox)
    assert episode.trajectory is not None
    assert "sort" not in {schema["function"]["name"] for schema in episode.trajectory.tools}
    (offer,) = [m.content for m in episode.trajectory.messages if "updated some more functions" in m.content]
    assert '"name": "sort"' in offer


async def test_the_checker_leaves_nothing_behind(open_sandbox: Callable[[], Sandbox]) -> None:
    from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils

    (task,) = bfcl.load().load(split="base", count=1, seed=0, world=0)
    await run(task, bfcl.script(task), open_sandbox)
    assert not [name for name in vars(multi_turn_utils) if name.startswith("hermes_lab")]
