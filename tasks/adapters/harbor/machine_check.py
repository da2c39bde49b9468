"""Why a task cannot run on this machine, and its commands without what is installed here already."""

import re
from collections.abc import Iterator

from hermes_lab.tasks.adapters.harbor.dockerfile import Run
from hermes_lab.tasks.adapters.harbor.folder import DOCKERFILE, HarborTask, Step, commands, read_text, requirement_files
from hermes_lab.tasks.adapters.harbor.machine import Python, has_debian_package, pip_installs, without_installs
from hermes_lab.tasks.adapters.harbor.shell import parts

_BASES = re.compile(
    r"(?:(?:docker\.io/)?(?:library/)?|public\.ecr\.aws/docker/library/)"
    r"(?:ubuntu|debian|buildpack-deps|python:(?P<python>\d+(?:\.\d+)?)?[\w.-]*|python)(?:[:@][\w.@:-]*)?"
    r"|ghcr\.io/(?:laude-institute|harbor-framework)/t-bench/(?:ubuntu|debian|python)[\w.:-]*"
)
"""Images whose commands are those of any Linux machine."""
_LOCAL = re.compile(r"localhost|127\.0\.0\.1|astral\.sh/uv|\$")
_WITH = re.compile(r"(?:^|\s)(?:-w|--with|--from)[= ](\S+)")


def problems_here(task: HarborTask, python: Python, backend: str) -> list[str]:
    """What this machine lacks to run a task in a sandbox of that backend: each with file and line."""
    if task.problems:
        return list(task.problems)
    if backend == "docker":
        build = "no image is built here: docker build -t NAME environment/, and name it in environment.docker_image"
        return [] if task.docker_image else [f"{DOCKERFILE}: {build}"]
    if task.docker_image:
        return [f"task.toml: environment.docker_image: needs the image {task.docker_image}, so sandbox.backend=docker"]
    assert task.image is not None
    found = [*_base_problems(task, python)]
    texts = requirement_files(task.folder)
    for step in commands(task.image):
        _, problems = without_installs(step.command, python, texts)
        found += [f"{DOCKERFILE}:{step.line}: RUN {problem}" for problem in problems]
    for each in task.steps:
        found += _test_problems(task, each, python)
    return list(dict.fromkeys(found))


def runnable(task: HarborTask, step: Run, python: Python) -> str:
    """The command of a RUN, without installing what is here."""
    return without_installs(step.command, python, requirement_files(task.folder))[0]


def _base_problems(task: HarborTask, python: Python) -> Iterator[str]:
    assert task.image is not None
    match = _BASES.fullmatch(task.image.base)
    where = f"{DOCKERFILE}:{task.image.base_line}: FROM {task.image.base}"
    if not match:
        build = "docker build it, and name it in environment.docker_image (sandbox.backend=docker)"
        yield f"{where}: needs an image: {build}"
    elif match["python"]:
        wanted = tuple(map(int, match["python"].split(".")))
        if python.version[: len(wanted)] < wanted:
            yield f"{where}: the sandboxes' Python is {'.'.join(map(str, python.version))} (suite.options: python)"


def _test_problems(task: HarborTask, step: Step, python: Python) -> Iterator[str]:
    """What the test script installs or calls that is not here, except replaced installers."""
    script = next(path / "test.sh" for path in reversed(step.tests) if (path / "test.sh").is_file())
    text, name = read_text(script), script.relative_to(task.folder).as_posix()
    wanted: list[str] = ["pytest"] if re.search(r"\bpytest\b", text) else []
    for part in parts(text):
        command, line = part.words[0].rpartition("/")[2], text.count("\n", 0, part.start) + 1
        if command in ("apt-get", "apt") and part.words[1:2] != ("update",):
            packages = [word for word in part.words[1:] if not word.startswith("-") and word != "install"]
            for package in packages:
                if package not in ("curl", "wget") and not has_debian_package(package, python):
                    yield f"{name}:{line}: apt-get install {package}: this machine has no {package}"
        elif command in ("curl", "wget", "git") and any("://" in word for word in part.words):
            if not any(map(_LOCAL.search, part.words)):
                yield f"{name}:{line}: {command}: needs the network"
        elif command in ("uv", "uvx"):
            wanted += [each for words in _WITH.findall(" ".join(part.words)) for each in words.split(",")]
        if installs := pip_installs(part.words):
            wanted += [word for word in installs.requirements if "$" not in word]
    for each in python.missing([re.sub(r"\[.*?\]", "", word) for word in dict.fromkeys(wanted)]):
        yield f"{name}: the sandboxes' Python has no {each}: pip install it there (suite.options: python)"
