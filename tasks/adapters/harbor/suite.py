"""Harbor task folders as a suite."""

from collections.abc import Sequence
from pathlib import Path

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ConfigError, VerifierError
from hermes_lab.protocols import Workspace
from hermes_lab.tasks.adapters.harbor.folder import HarborTask, read_task, task_folders
from hermes_lab.tasks.adapters.harbor.machine import IMAGE_PYTHON, Python, python_of
from hermes_lab.tasks.adapters.harbor.machine_check import problems_here
from hermes_lab.tasks.adapters.harbor.session import HarborSession
from hermes_lab.tasks.draws import Draws
from hermes_lab.types import Root, Task, Verdict

SPLIT = "train"
_NAMED = 3


class HarborSuite:
    """The tasks of a folder of task folders, or of one. Seed 0 keeps the order of their names, any other shuffles them;
    `world` has no effect.

    `skip_unsupported`: leave out the tasks that cannot run here, instead of refusing them. `python`: the Python
    environment of the sandboxes, a folder; "" for that of the lab. `running`: the agent's processes go on while its
    work is verified, as tasks that ask for a server need.
    """

    splits = (SPLIT,)

    def __init__(
        self,
        path: Path,
        sandbox: SandboxConfig,
        *,
        skip_unsupported: bool = False,
        python: str = "",
        running: bool = False,
    ) -> None:
        self.path = path
        self.name = path.resolve().name.replace("|", "-") or "harbor"
        self.python: Python = IMAGE_PYTHON if sandbox.backend == "docker" else python_of(python)
        self._sandbox = sandbox
        self._skip = skip_unsupported
        self._running = running
        self.broken: list[str] = []
        self._tasks: dict[str, HarborTask] = {}
        for folder in task_folders(path.absolute()):  # a worker on Ray has another working directory
            try:
                self._add(read_task(folder))
            except ConfigError as error:
                self.broken.append(str(error))
        self.unsupported = {
            name: problems
            for name, task in self._tasks.items()
            if (problems := problems_here(task, self.python, sandbox.backend))
        }

    def _add(self, task: HarborTask) -> None:
        if (other := self._tasks.get(task.id)) is not None:
            raise ConfigError(
                f"{task.folder / 'task.toml'}: task.name: {task.id!r} is also {other.folder}; names are unique"
            )
        self._tasks[task.id] = task

    @property
    def supported(self) -> list[HarborTask]:
        """The tasks that can run here, by name."""
        return [task for name, task in self._tasks.items() if name not in self.unsupported]

    @property
    def left_out(self) -> dict[str, str]:
        """The tasks that `skip_unsupported` leaves out, with the first reason."""
        return {name: problems[0] for name, problems in self.unsupported.items()} if self._skip else {}

    def problems(self) -> list[str]:
        """All problems, a line each."""
        lines = [f"{self.path}: {name}: {what}" for name, found in self.unsupported.items() for what in found]
        return self.broken + lines

    def remarks(self) -> Sequence[str]:
        """See `SuiteWithWarnings`."""
        tasks, config, found = self.supported, self._sandbox, []
        for what, field, asked in (
            ("memory", "memory_mb", [task.memory_mb for task in tasks]),
            ("disk space", "disk_mb", [task.disk_mb for task in tasks]),
        ):
            limit = getattr(config, field)
            if more := [(each, task) for each, task in zip(asked, tasks, strict=True) if each > limit]:
                ask = f"{self._named([task for _, task in more])} ask for more {what}"
                found.append(f"{ask} than sandbox.{field}={limit}, up to {max(each for each, _ in more)}")
        if limited := [task for task in tasks if task.cpus]:
            found.append(
                f"environment.cpus of {self._named(limited)} is not enforced: all sandboxes share this machine's "
                "processors"
            )
        if online := [task for task in tasks if task.internet]:
            found.append(f"{self._named(online)} ask for the internet; the sandboxes have no network")
        if self.left_out:
            found.append(f"left out as unsupported: {len(self.left_out)} of {len(self._tasks)} tasks of {self.path}")
        return found

    def _named(self, tasks: Sequence[HarborTask]) -> str:
        """Some of the supported tasks, the first of them by name."""
        more = f" and {len(tasks) - _NAMED} more" if len(tasks) > _NAMED else ""
        names = ", ".join(task.id for task in tasks[:_NAMED])
        return f"{len(tasks)} of {len(self.supported)} tasks ({names}{more})"

    def load(self, *, split: str, count: int, seed: int, world: int) -> list[Task]:
        """The first `count` tasks in the order of the seed; all tasks for a count of 0.

        Raises `ConfigError` if a task is broken, or cannot run here and is not to be left out.
        """
        if split != SPLIT:
            raise ConfigError(f"suite.split: Harbor folders only have {SPLIT!r}, not {split!r}; leave the field out")
        self._refuse()
        tasks = self.supported
        if count > len(tasks):
            raise ConfigError(f"{count} tasks requested, but {self.path} has {len(tasks)}", "suite.count")
        chosen = Draws("harbor", seed).shuffled(tasks) if seed else tasks
        return [self._task(task) for task in chosen[: count or None]]

    def task_folder(self, name: str) -> HarborTask:
        """What a task's folder holds."""
        return self._tasks[name]

    def has_solution(self, name: str) -> bool:
        """Whether every step of a task has a solution/solve.sh."""
        return all(step.solution for step in self._tasks[name].steps)

    def tasks(self) -> list[Task]:
        """The tasks that can run here, whatever else is in the folder."""
        return [self._task(task) for task in self.supported]

    async def open_session(self, task: Task) -> HarborSession:
        """See `SessionSuite`."""
        return HarborSession(self._tasks[task.id], self.python, running=self._running)

    async def verify(self, task: Task, workspace: Workspace, answer: str | None, attempt: int = 1) -> Verdict | None:
        """Only a session can: the tests run in the system that it laid out."""
        raise VerifierError(f"{task.id}: is verified in its own session")

    def _refuse(self) -> None:
        more = f"; `hermes-lab tasks check {self.path}` lists all problems"
        if self.broken:
            rest = len(self.broken) - 1
            raise ConfigError(f"{self.broken[0]}{f' (and {rest} more){more}' if rest else ''}")
        if self.unsupported and not self._skip:
            name, (first, *_) = next(iter(self.unsupported.items()))
            rest = len(self.unsupported) - 1
            others = f" (and {rest} more task{'s' * (rest > 1)} of {len(self._tasks)}{more})" if rest else ""
            raise ConfigError(
                f"{self.path}: {name}: {first}{others}; to leave unsupported tasks out, set "
                "suite.options={skip_unsupported: true}"
            )
        if not self.supported:
            raise ConfigError(f"{self.path}: none of its {len(self._tasks)} tasks can run here{more}")

    def _task(self, task: HarborTask) -> Task:
        variables = {**(task.image.environment if task.image else {}), **task.environment}
        python = self.python
        if python.path:
            variables["PYTHONPATH"] = ":".join(filter(None, (variables.get("PYTHONPATH"), *python.path)))
        elif python.mounts:
            variables["PATH"] = f"{python.command.rpartition('/')[0]}:{variables.get('PATH', _PATH)}"
        category = task.metadata.get("category")
        return Task(
            id=task.id,
            suite=self.name,
            prompt=task.steps[0].instruction,
            domain=category if isinstance(category, str) and category else "harbor",
            split=SPLIT,
            truth={"files": task.digests()},
            metadata={**task.metadata, **({"steps": len(task.steps)} if len(task.steps) > 1 else {})},
            root=Root(
                workdir=task.workdir,
                image=task.docker_image,
                environment=variables,
                mounts=python.mounts,
                memory_mb=task.memory_mb,
                disk_mb=task.disk_mb,
                seconds=task.seconds,
            ),
        )


_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
