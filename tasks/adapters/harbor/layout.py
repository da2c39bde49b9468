"""Puts files into a sandbox and runs what a Dockerfile, a step's setup or a solution says."""

import io
import secrets
import shlex
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from hermes_lab.errors import SandboxError
from hermes_lab.protocols import Sandbox
from hermes_lab.tasks.adapters.harbor.dockerfile import Copy, MakeFolder, Run
from hermes_lab.tasks.adapters.harbor.folder import DOCKERFILE, HarborTask, context_paths
from hermes_lab.tasks.adapters.harbor.machine import Python
from hermes_lab.tasks.adapters.harbor.machine_check import runnable

_PYTHON = 'type -P python >/dev/null || ln -s "$(type -P python3)" /usr/local/bin/python'
_SCRIPTS = ("tests/test.sh", "solution/solve.sh")
"""Files that need not be executable in the task's folder."""
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


async def lay_out(task: HarborTask, python: Python, sandbox: Sandbox) -> None:
    """Follows the Dockerfile. Raises `SandboxError` for a step that fails, with its line."""
    if task.image is None:  # a container's own image
        return
    folders, first = list[str](), f"{_PYTHON}; "
    for step in task.image.steps:
        if isinstance(step, MakeFolder):
            folders.append(step.path)
            continue
        await _make(task, folders, sandbox, first)
        await _follow(task, step, python, sandbox)
        first = ""
    await _make(task, folders, sandbox, first)


async def _make(task: HarborTask, folders: list[str], sandbox: Sandbox, first: str) -> None:
    """Runs `first`, and makes working directories, apart from the last one, which is there."""
    wanted = [path for path in dict.fromkeys(folders) if path != task.workdir]
    if wanted or first:
        await _check(task, sandbox, "", first + (f"mkdir -p {shlex.join(wanted)}" if wanted else ":"), 60)
    folders.clear()


async def _follow(task: HarborTask, step: Run | Copy, python: Python, sandbox: Sandbox) -> None:
    where = f"{DOCKERFILE}:{step.line}: "
    if isinstance(step, Copy):
        await _copy(task, step, where, sandbox)
        return
    command = runnable(task, step, python)
    await _check(task, sandbox, where, shell_line(step, command), task.build_seconds)


def shell_line(step: Run, command: str) -> str:
    """The command with the variables and the directory that it has in the Dockerfile."""
    return f"{exports(step.environment)}cd {shlex.quote(step.workdir)} && {step.shell} {shlex.quote(command)}"


def exports(variables: Mapping[str, str]) -> str:
    """A line that sets variables, after the home of root."""
    words = [f"{name}={shlex.quote(value)}" for name, value in {"HOME": "/root", **variables}.items()]
    return f"export {' '.join(words)}\n"


async def _copy(task: HarborTask, step: Copy, where: str, sandbox: Sandbox) -> None:
    if step.text is not None:
        target = PurePosixPath(step.target)
        packed = pack([(target.name, step.text.encode())])
        await put(task, packed, str(target.parent), sandbox, where)
        changed = [step.target]
    else:
        paths = [path for source in step.sources for path in context_paths(task.folder, source)]
        folders = [path for path in paths if path.is_dir()]
        files = [path for path in paths if path not in folders]
        archives = [path for path in files if step.unpack and path.name.endswith(_ARCHIVES)]
        into = step.into or len(paths) > 1 or bool(folders) or bool(archives)
        for folder in folders:
            await put(task, pack_folder(folder), step.target, sandbox, where)
        target = PurePosixPath(step.target)
        if files and not into:  # a target that is a folder already is gone into
            there = await sandbox.exec(f"test -d {shlex.quote(step.target)}", fresh=True)
            into = there.exit_code == 0
        parent = step.target if into else str(target.parent)
        if files:
            await put(
                task, pack([(path.name if into else target.name, path) for path in files]), parent, sandbox, where
            )
        changed = [f"{parent}/{path.name if into else target.name}" for path in files]
        changed += [step.target] if folders else []
        for path in archives:
            name = shlex.quote(path.name)
            unpacked = f"cd {shlex.quote(parent)} && tar -xf {name} --no-same-owner && rm {name}"
            await _check(task, sandbox, where, unpacked, 600)
    if step.mode:
        await _check(task, sandbox, where, f"chmod -R {step.mode} {shlex.join(changed)}", 60)


async def put(task: HarborTask, packed: bytes, target: str, sandbox: Sandbox, where: str = "") -> None:
    """Unpacks an archive of `pack` in a folder, which is made if need be."""
    name = f"{secrets.token_hex(8)}.tar"
    await sandbox.provide(name, packed)
    folder, archive = shlex.quote(target), f"{sandbox.skills_path}/{name}"
    await _check(task, sandbox, where, f"mkdir -p {folder} && tar -xf {archive} -C {folder} --no-same-owner", 600)
    await sandbox.provide(name, b"")


async def _check(task: HarborTask, sandbox: Sandbox, where: str, command: str, seconds: float) -> None:
    done = await sandbox.exec(command, timeout=seconds, fresh=True)
    if done.timed_out:
        raise SandboxError(f"{task.id}: {where}not done after {seconds:g} seconds")
    if done.exit_code:
        said = " ".join(done.output.split())[-300:] or "no output"
        raise SandboxError(f"{task.id}: {where}failed with exit code {done.exit_code}: {said}")


def pack(files: Iterable[tuple[str, bytes | Path]]) -> bytes:
    """A tar archive of files by name, owned by root. A file beginning with `#!` is executable."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files:
            if isinstance(content, Path):
                archive.add(content, name, filter=_owned)
            else:
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(content), 0o755 if content.startswith(b"#!") else 0o644
                archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def pack_folder(folder: Path, prefix: str = "") -> bytes:
    """A tar archive of what is in a folder, below `prefix`."""
    return pack((f"{prefix}{path.name}", path) for path in sorted(folder.iterdir()) if path.name != "__pycache__")


def _owned(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    if info.name in _SCRIPTS:
        info.mode |= 0o111
    return info
