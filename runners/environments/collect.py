"""Rollouts for GRPO training, on a server that runs for the whole training."""

import shutil
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from hermes_lab.analysis.libraries import load_initial_library
from hermes_lab.config.schema import ModelConfig, addresses
from hermes_lab.envs.knowledge import TaskKnowledge
from hermes_lab.envs.learning.records import LearningPlan
from hermes_lab.errors import ConfigError, ModelError
from hermes_lab.knowledge import Knowledge
from hermes_lab.lane import LaneKey, lane_name
from hermes_lab.models import weights
from hermes_lab.models.adapters import identify, served_models, unload_adapter
from hermes_lab.models.endpoint import Endpoint
from hermes_lab.models.refusals import Refused
from hermes_lab.models.server import VllmServer, is_cpu_build
from hermes_lab.models.sleeping import SLEEP_ENVIRONMENT, SLEEP_OPTIONS, sleep, wake
from hermes_lab.models.weights import Say
from hermes_lab.protocols import Suite
from hermes_lab.runners.engine.execute import Listener, RunPlan, execute
from hermes_lab.runners.engine.lanes import initial_library
from hermes_lab.runners.engine.plan import Lane
from hermes_lab.runners.environments.learning import learn
from hermes_lab.skills.library import Library
from hermes_lab.tasks import load_suite
from hermes_lab.training.batch_tasks import batch_tasks
from hermes_lab.training.device import release_memory
from hermes_lab.training.grpo_config import NOT_SHARED, Batch, Sharing, context_length, unshared
from hermes_lab.training.lock import LockedConfig
from hermes_lab.types import Task

_STOP_SECONDS = 15.0
"""Time in which our own server shuts down; one that still answers after it is someone else's."""

_TRIES = 2
"""Attempts per batch; episodes that still fail are left out."""


class BatchSampler:
    """Runs batches on the server of the lock file, which is started before the first rollout if it is not running.

    While steps are taken the server keeps the GPU, sleeps or is stopped, as the training's `turns` says.
    """

    def __init__(
        self, locked: LockedConfig, log: Path, say: Say, listener: Listener, sharing: Sharing = NOT_SHARED
    ) -> None:
        self._locked = locked
        self._sharing = sharing
        self._asleep = sharing.turns == "sleep"  # a server of an earlier training may still be asleep
        self._retired: list[Path] = []
        self._sleeping: Sequence[str] = ()
        """What this training has put to sleep."""
        self._log = log
        self._say = say
        self._listener = listener
        self._urls = addresses(locked.rollout_server_url)
        self._server: VllmServer | None = None
        self._found = False

    def collect(self, batch: Batch) -> None:
        """Runs the rollouts that are missing in the batch's folder."""
        plan = None if batch.reviews else _plan(batch)  # refused before a server is started for it
        if self._sharing.turns == "merge":  # the run starts its own
            self._leave_the_port(batch.folder)
        else:
            self._find_server(batch.config.model)
        if self._asleep:
            for url in self._servers():
                anyio.run(wake, url)
            self._asleep, self._sleeping = False, ()
            for version in self._retired:
                self._unload(version)
            self._retired = []
        if plan:
            self._run(plan, batch.folder)
        elif batch.reviews:
            learn(batch.config, LearningPlan(batch.reviews, batch.draw, batch.samples), batch.folder, self._say)

    def _run(self, plan: RunPlan, folder: Path) -> None:
        for _ in range(_TRIES):
            begun = (folder / "run.json").exists()
            result = execute(plan, resume=begun, listener=self._listener)
            for warning in result.summary["warnings"]:
                self._say(f"warning: {warning}")
            if result.complete:
                return
            missing = result.wanted - result.finished
            self._say(f"{missing} of {result.wanted} episodes did not finish ({result.last_error})")

    def retire(self, version: Path) -> None:
        """Unloads an adapter version from the servers; later, if they are asleep or stopped.

        Its merged weights are removed, since they are as large as the model.
        """
        if self._sharing.turns == "merge":
            _, adapter = identify(version)
            base = weights.resolve(self._locked.base_model, self._say)
            shutil.rmtree(weights.merged_folder(base, adapter.digest), ignore_errors=True)
        elif self._asleep:
            self._retired.append(version)
        else:
            self._unload(version)

    def rest(self) -> None:
        """Leaves the GPU to the training's steps, until the next batch.

        A training that is resumed in its steps has not looked for a server yet, and starts none here.
        """
        if self._sharing.turns in ("sleep", "stop") and not self._found:
            self._await_the_end(self._log)
        if self._sharing.turns == "sleep":
            for url in self._servers():
                self._put_to_sleep(url)
            self._asleep = True
        elif self._sharing.turns == "stop":
            self.close()
            self._found = False

    def _put_to_sleep(self, url: str) -> None:
        before, self._sleeping = self._sleeping, (*self._sleeping, url)  # first, since an interrupt may come after it
        try:
            anyio.run(sleep, url)
        except ConfigError:  # it cannot sleep
            self._sleeping = before
            raise

    def _unload(self, version: Path) -> None:
        for url in self._urls if self._found else ():
            with suppress(ModelError):  # the server may be gone
                anyio.run(_unload, url, version)

    def _servers(self) -> Sequence[str]:
        """The servers to put to sleep or wake: where there may be none, or are several, those that answer."""
        if self._found and len(self._urls) == 1:
            return self._urls
        return [url for url in self._urls if anyio.run(_answers, url)]

    def close(self) -> None:
        """Stops the server if it is ours; wakes one of someone else."""
        if self._server is not None:
            server, self._server = self._server, None
            anyio.run(server.__aexit__)
        elif self._sleeping:
            self._wake_for_others()

    def _wake_for_others(self) -> None:
        urls, self._sleeping = self._sleeping, ()
        if "torch" in sys.modules:
            release_memory()
        for url in urls:
            try:
                anyio.run(wake, url)
            except (ModelError, ConfigError) as error:
                self._say(f"warning: the server at {url} is still asleep, POST /wake_up wakes it: {error}")

    def _find_server(self, model: ModelConfig) -> None:
        if self._found:
            return
        self._await_the_end(self._log)
        # One of several servers is enough to start; the others are left out until they answer.
        if not any(anyio.run(_answers, url) for url in self._urls):
            self._server = anyio.run(self._start, model)
        elif self._sharing.turns == "stop":
            raise ConfigError(
                f"turns: the server at {self._urls[0]} was not started by this training, which cannot stop it: end "
                "that server, or give turns=sleep"
            )
        self._found = True

    def _leave_the_port(self, folder: Path) -> None:
        """Raises `ConfigError` if there is a server where the run in `folder` starts its own."""
        _local_port(", ".join(self._urls))
        self._await_the_end(folder)
        if anyio.run(_answers, self._urls[0]):
            raise ConfigError(
                f"turns: a server runs at {self._urls[0]}, where the training starts its own with merged weights: end "
                "that server, or give turns=none"
            )

    def _await_the_end(self, trace: Path) -> None:
        """Waits for the server of a killed training, which may still be shutting down. `trace` is a path that such a
        training has left."""
        deadline = time.monotonic() + _STOP_SECONDS
        while trace.exists() and time.monotonic() < deadline and anyio.run(_answers, self._urls[0]):
            time.sleep(0.5)

    async def _start(self, model: ModelConfig) -> VllmServer:
        """Starts a server. Only a single local address can be started from here."""
        refused = unshared(self._locked, self._sharing.turns, self._sharing.server_gpu)
        if refused and not is_cpu_build():
            raise ConfigError(refused)
        folder = await anyio.to_thread.run_sync(weights.resolve, self._locked.base_model, self._say)
        sleeps = self._sharing.turns == "sleep"
        if sleeps and is_cpu_build():
            raise ConfigError(
                "turns: vLLM's build for CPUs frees nothing when it sleeps; give turns=stop or turns=none"
            )
        options = SLEEP_OPTIONS if sleeps else ()
        length = context_length(model, self._locked)
        port = _local_port(", ".join(self._urls))
        config = model.server.model_copy(update={"port": port, "args": options, "max_model_len": length})
        environment = dict(SLEEP_ENVIRONMENT) if sleeps else {}
        if self._sharing.server_gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = str(self._sharing.server_gpu)
        server = VllmServer(
            folder,
            config,
            name=self._locked.base_model,
            log=self._log,
            say=self._say,
            rank=self._locked.lora_rank,
            environment=environment,
        )
        return await server.__aenter__()


@contextmanager
def open_sampler(
    locked: LockedConfig, log: Path, say: Say, listener: Listener, sharing: Sharing = NOT_SHARED
) -> Iterator[BatchSampler]:
    """A sampler that is closed at the end of the block."""
    sampler = BatchSampler(locked, log, say, listener, sharing)
    try:
        yield sampler
    except BaseException as error:
        # Calls that ended with it keep the model that was trained on the GPU, where a server is to wake.
        traceback.clear_frames(error.__traceback__)
        raise
    finally:
        sampler.close()


def _plan(batch: Batch) -> RunPlan:
    """The run of a batch. Raises `ConfigError` as that does."""
    suite = load_suite(batch.config.suite, batch.config.sandbox)
    library = load_initial_library(batch.config.skills.library)
    lanes = batch_lanes(batch, suite, library)
    return RunPlan("run", batch.config, batch.folder, suite, lanes, library.snapshot)


def batch_lanes(batch: Batch, suite: Suite, library: Library) -> list[Lane]:
    """A lane per arm and world with its share of the batch's tasks; where `env.knowledge` chooses the skills, a lane
    per task."""
    config, known = batch.config, TaskKnowledge(batch.config, suite, library)
    lanes = []
    for world, arm, tasks in batch_tasks(batch, suite):
        if config.env.knowledge != "none":
            lanes += [_lane_of(batch, task, place, known.of(task)) for place, task in enumerate(tasks)]
            continue
        name = lane_name(LaneKey(arm, 0, world, 0), with_weights=False)
        start = initial_library(arm, library, suite, split=config.suite.split, world=world)
        lanes.append(Lane(name, arm, start, batch.samples, [tasks]))
    return lanes


def _lane_of(batch: Batch, task: Task, place: int, knowledge: Knowledge) -> Lane:
    """The lane of one task, which is the one at `place` in its world."""
    name = lane_name(LaneKey(batch.config.env.knowledge, place, task.world), with_weights=False)
    return Lane(name, "frozen", knowledge.library, batch.samples, [[task]], label=knowledge.label)


def _local_port(url: str) -> int:
    parts = urlsplit(url)
    if parts.hostname not in ("127.0.0.1", "localhost") or parts.path.rstrip("/") != "/v1" or not parts.port:
        raise ConfigError(
            f"lock: rollout_server_url: no server at {url}, and only http://127.0.0.1:PORT/v1 is started "
            "automatically; start it with `hermes-lab serve`"
        )
    return parts.port


async def _answers(url: str) -> bool:
    async with Endpoint(url, max_retries=0, timeout=5.0) as endpoint:
        try:
            await served_models(endpoint)
        except Refused:
            return True  # it is up; the rollouts will report what is wrong
        except ModelError:
            return False
    return True


async def _unload(url: str, version: Path) -> None:
    _, adapter = await anyio.to_thread.run_sync(identify, version)
    async with Endpoint(url) as endpoint:
        if adapter.name in await served_models(endpoint):
            await unload_adapter(endpoint, adapter.name)
