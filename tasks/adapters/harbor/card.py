"""Renders a Harbor task in Markdown: its instruction, system, tests and limits."""

from collections.abc import Iterator
from pathlib import Path

from hermes_lab.tasks.adapters.harbor.dockerfile import Copy, Image, Run
from hermes_lab.tasks.adapters.harbor.folder import HarborTask, Step, context_paths
from hermes_lab.tasks.gallery import quoted

_FILES = 40


def card(task: HarborTask) -> str:
    """A task in Markdown."""
    return "\n\n".join(_parts(task))


def _parts(task: HarborTask) -> Iterator[str]:
    for step in task.steps:
        yield f"{f'Step {step.name}:{chr(10)}{chr(10)}' if step.name else ''}{quoted(step.instruction)}"
    yield f"Folder: {task.folder}"
    yield _system(task)
    yield _list("Tests", (path for step in task.steps for folder in step.tests for path in _below(folder, task)))
    yield _list("Limits", _limits(task))
    solved = [step for step in task.steps if step.solution]
    where = "; ".join(f"{_path(step.solution, task)}/solve.sh" for step in solved if step.solution)
    missing = f" (none in {len(task.steps) - len(solved)} of {len(task.steps)} steps)" if where else ""
    yield f"Solution: {where or 'none'}{missing if len(solved) < len(task.steps) else ''}"


def _system(task: HarborTask) -> str:
    if task.docker_image or task.image is None:
        return f"System: image {task.docker_image}, working directory {task.workdir}"
    return _list(f"System: FROM {task.image.base}, working directory {task.workdir}", _copied(task, task.image))


def _copied(task: HarborTask, image: Image) -> Iterator[str]:
    """What the Dockerfile does: a line for each file that it copies, and for each command."""
    for step in image.steps:
        if isinstance(step, Run):
            yield f"RUN {step.command.strip().splitlines()[0]}"
        elif isinstance(step, Copy):
            paths = [path for source in step.sources for path in context_paths(task.folder, source)]
            files = [
                below for path in paths for below in (_below(path, task) if path.is_dir() else [_path(path, task)])
            ]
            yield f"{', '.join(files[:_FILES]) if step.text is None else 'text'} -> {step.target}"


def _limits(task: HarborTask) -> Iterator[str]:
    for step in task.steps:
        where = f" in step {step.name}" if step.name else ""
        yield f"{_seconds(step)} for the agent{where}, {step.timeout:g} s for its verification"
    sizes = (
        ("MB of memory", task.memory_mb),
        ("MB of disk space", task.disk_mb),
        ("processors (not enforced)", task.cpus),
    )
    yield from (f"{size:g} {what}" for what, size in sizes if size)


def _seconds(step: Step) -> str:
    return f"{step.seconds:g} s" if step.seconds else "no limit"


def _list(title: str, lines: Iterator[str]) -> str:
    return "\n".join([title, *(f"- {line}" for line in dict.fromkeys(lines))])


def _below(folder: Path, task: HarborTask) -> list[str]:
    found = sorted(_path(path, task) for path in folder.rglob("*") if path.is_file())
    more = [f"and {len(found) - _FILES} more"] if len(found) > _FILES else []
    return found[:_FILES] + more


def _path(path: Path, task: HarborTask) -> str:
    return path.relative_to(task.folder).as_posix()
