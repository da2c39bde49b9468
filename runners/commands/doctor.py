"""`doctor`: checks what this machine can run."""

import importlib.util
import os
import shutil
import subprocess
import sys
from typing import NamedTuple

import anyio
import typer

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.errors import ConfigError, HermesLabError, SandboxError
from hermes_lab.models import weights
from hermes_lab.runners import output
from hermes_lab.runners.commands import options
from hermes_lab.sandbox import probe
from hermes_lab.sandbox.docker_engine import describe as describe_docker


class Finding(NamedTuple):
    """One line of the report. Nothing runs without what is `needed`."""

    what: str
    works: bool
    detail: str
    needed: bool


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command(
        "doctor",
        help="Check what this machine can run and how to install what is missing. Exits 1 if nothing can run.\n\n"
        "hermes-lab doctor\n\nhermes-lab doctor --json",
    )(doctor)


def doctor(json: options.Json = False) -> int:
    """`hermes-lab doctor`. Starts a sandbox to test it; makes no network requests."""
    where = (_python, _sandbox, _docker, _apptainer, _ssh, _modal, _daytona)
    what = (_mcp, _browser, _platforms, _training, _vllm, _ray, _gpu, _packaged_model, _memory)
    findings = [check() for check in (*where, *what)]
    findings += _programs()
    if json:
        output.print_json([finding._asdict() for finding in findings])
    else:
        for finding in findings:
            mark = "ok  " if finding.works else ("MISS" if finding.needed else "-   ")
            typer.echo(f"{mark}  {finding.what:<16} {finding.detail}")
    return 1 if any(finding.needed and not finding.works for finding in findings) else 0


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", sys.version_info >= (3, 11), version, needed=True)


def _sandbox() -> Finding:
    try:
        anyio.run(probe, SandboxConfig())
    except HermesLabError as error:
        return Finding("sandbox", False, str(error), needed=True)
    return Finding("sandbox", True, "bubblewrap: isolated, no network (tested)", needed=True)


def _docker() -> Finding:
    try:
        return Finding("docker", True, describe_docker(), needed=False)
    except SandboxError as error:
        return Finding("docker", False, str(error).removeprefix("sandbox: "), needed=False)


def _apptainer() -> Finding:
    from hermes_lab.sandbox.apptainer import find_apptainer

    try:
        program = find_apptainer()
    except ConfigError as error:
        return Finding("apptainer", False, error.message, needed=False)
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return Finding("apptainer", True, f"{program}, {said or 'unknown version'} (not started)", needed=False)


def _ssh() -> Finding:
    return _packages("ssh sandboxes", ("asyncssh",), "pip install 'hermes-lab[ssh]'")


def _modal() -> Finding:
    found = _packages("modal sandboxes", ("modal",), "pip install 'hermes-lab[modal]'")
    if not found.works:
        return found
    from hermes_lab.sandbox.modal import check_account

    try:
        check_account()
    except ConfigError as error:
        return found._replace(works=False, detail=str(error).removeprefix("sandbox.backend: modal "))
    return found._replace(detail="modal installed, a token is set (not tried)")


def _daytona() -> Finding:
    variable = SandboxConfig().daytona.api_key_env
    found = bool(os.environ.get(variable))
    detail = f"${variable} is set (not tried)" if found else f"${variable} is not set: docs/backends.md"
    return Finding("daytona", found, detail, needed=False)


def _mcp() -> Finding:
    return _packages("MCP servers", ("mcp",), "pip install 'hermes-lab[mcp]'")


def _browser() -> Finding:
    from hermes_lab.web.browser.installed import missing_browser

    missing = missing_browser()
    return Finding("browser tools", not missing, missing or "Playwright and Chromium found", needed=False)


def _platforms() -> Finding:
    """The chat platforms that can be used, apart from their accounts."""
    needs = {
        "telegram": ("telegram",),
        "matrix": ("nio",),
        "email": ("aioimaplib", "aiosmtplib"),
        "slack": ("slack_sdk",),
    }
    missing = [name for name, packages in needs.items() if not all(map(importlib.util.find_spec, packages))]
    extras = ",".join(missing)
    detail = f"{', '.join(missing)} not installed: pip install 'hermes-lab[{extras}]'" if missing else "all installed"
    return Finding("chat platforms", not missing, detail, needed=False)


def _training() -> Finding:
    return _packages("training", ("torch", "trl", "peft"), "pip install 'hermes-lab[train]'")


def _vllm() -> Finding:
    return _packages("local vLLM", ("vllm",), "pip install 'hermes-lab[serve]' (GPU) or 'hermes-lab[cpu]'")


def _ray() -> Finding:
    found = _packages("ray", ("ray",), "pip install 'hermes-lab[ray]'")
    address = os.environ.get("RAY_ADDRESS")
    where = f"the cluster of $RAY_ADDRESS, {address}" if address else "a local cluster"
    return found._replace(detail=f"{found.detail}; run.executor=ray uses {where}") if found.works else found


def _packages(what: str, names: tuple[str, ...], remedy: str) -> Finding:
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    detail = f"{', '.join(missing)} not installed: {remedy}" if missing else f"{', '.join(names)} installed"
    return Finding(what, not missing, detail, needed=False)


def _gpu() -> Finding:
    found = shutil.which("nvidia-smi") is not None
    return Finding(
        "gpu",
        found,
        "nvidia-smi found" if found else "none: models and training run on the CPU",
        needed=False,
    )


def _packaged_model() -> Finding:
    folder = weights.packaged_folder()
    detail = (
        str(folder)
        if folder.is_dir()
        else "not downloaded yet: the first run with model.name=packaged fetches it (93 MB)"
    )
    return Finding("packaged model", folder.is_dir(), detail, needed=False)


def _programs() -> list[Finding]:
    """The programs that can work instead of the lab's own loop."""
    from hermes_lab.harness.programs import find_program, program_names
    from hermes_lab.runners.agents import describe
    from hermes_lab.runners.commands.agents import where

    findings = []
    for name in program_names():
        try:
            found = describe(find_program(name))
        except ConfigError as error:
            findings.append(Finding(name, False, str(error), needed=False))
        else:
            findings.append(Finding(name, bool(found["installed"] or found["at"]), where(found), needed=False))
    return findings


def _memory() -> Finding:
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    enough = gigabytes >= 15
    detail = f"{cores} cores, {gigabytes:.0f} GB" + (
        "" if enough else "; the packaged model needs 8 GB to serve and 16 GB to train"
    )
    return Finding("machine", enough, detail, needed=False)
