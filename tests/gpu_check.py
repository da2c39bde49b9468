"""Does the lab train and serve on this machine's GPU? `make gpu-check`, without a model hub.

    python tests/gpu_check.py [FOLDER]

Runs the commands of a user: SFT, GRPO and preference training of the packaged model with CUDA, then a held-out
run of the trained adapter in vLLM. Prints the plan beside what was measured, and writes FOLDER/report.json. Exits 1
if a command fails, and with 0 and the reason if there is no GPU to check.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from hermes_lab.lane import lane_key
from hermes_lab.models.cards import Method
from hermes_lab.records import read_episodes
from hermes_lab.training.lock import LockedConfig, save_lock
from hermes_lab.training.memory import GB
from hermes_lab.training.presets import preset

_LENGTH = 2048
_SFT_STEPS, _GRPO_STEPS, _PREFERENCE_STEPS = 40, 4, 8


class Gpu(NamedTuple):
    """The first GPU: its name and gigabytes of memory."""

    name: str
    memory: float


class Failed(Exception):
    """A command failed; the message says where its output is."""


class Check:
    """The commands, their logs, and what they measured."""

    def __init__(self, folder: Path, gpu: Gpu) -> None:
        self.folder = folder
        self.gpu = gpu
        self.measured: dict[str, Any] = {"gpu": gpu.name, "gpu_memory": round(gpu.memory, 1), "versions": versions()}

    def lab(self, name: str, *arguments: str) -> str:
        """Runs `hermes-lab ARGUMENTS` and returns its stdout. Raises `Failed` if it fails."""
        log = self.folder / f"{name.replace(' ', '-')}.log"
        print(f"{name:<24}", end="", flush=True)
        began = time.monotonic()
        with log.open("w") as errors:
            print("hermes-lab", *arguments, file=errors, flush=True)
            command = [sys.executable, "-m", "hermes_lab", *arguments]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        seconds = time.monotonic() - began
        with log.open("a") as errors:
            errors.write(done.stdout)
        if done.returncode:
            print("failed")
            raise Failed("\n".join([*log.read_text().splitlines()[-15:], f"exit code {done.returncode}; see {log}"]))
        print(f"{seconds:6.0f} s")
        self.measured.setdefault("seconds", {})[name] = round(seconds, 1)
        return done.stdout

    def lock(self, method: Method, **changed: Any) -> Path:
        """A lock of the packaged model for this GPU, shorter than usual, with the rank of the packaged adapter."""
        chosen = preset("packaged", int(self.gpu.memory), method, length=_LENGTH).locked
        values = {"warmup_steps": 1, "lora_rank": 8, "lora_alpha": 16, **changed}
        if chosen.grpo is not None:
            values["grpo"] = chosen.grpo.model_copy(update={"steps_per_eval": 0, "max_reply_tokens": 192})
        path = self.folder / f"{method}.yaml"
        save_lock(LockedConfig.model_validate(chosen.model_copy(update=values).model_dump()), path)
        return path

    def train(self, method: Method, lock: Path, *sources: str) -> str:
        """Plans and trains; returns the adapter's folder."""
        given = (f"configs/train/{method}.yaml", f"lock={lock}", f"adapters={self.folder}/adapters", *sources)
        arguments = configured(*given)
        plan = self.lab(f"plan {method}", "train", method, *arguments, "--plan")
        adapter = self.lab(f"train {method}", "train", method, *arguments).strip().splitlines()[-1]
        found = speed(Path(adapter))
        if method != "grpo":  # of which the plan has only an upper bound
            found["tokens_per_second"] = round(tokens_of_step(plan) / found["seconds_per_step"])
        self.measured[method] = {"plan": plan.splitlines(), **found}
        return adapter


def configured(*sources: str) -> list[str]:
    """The sources of a configuration as arguments."""
    return [part for source in sources for part in ("-c", source)]


def tokens_of_step(plan: str) -> int:
    """The mean tokens of a step, from a plan of SFT or preference training. Raises `Failed` if it has none."""
    if found := re.search(r" rows, on average ([\d,]+) tokens", plan):
        return int(found[1].replace(",", ""))
    raise Failed(f"the plan does not say how many tokens a step has:\n{plan}")


def solved_with_rules(run: Path) -> str:
    """How many held-out tasks were solved with the true rules as skills. Raises `Failed` if it is less than half:
    then the server does not apply the adapter."""
    wins = [bool(each.success) for each in read_episodes(run) if (key := lane_key(each.lane)) and key.arm == "oracle"]
    told = f"{sum(wins)} of {len(wins)} held-out tasks solved with the true rules as skills"
    if 2 * sum(wins) < len(wins) or not wins:
        raise Failed(f"{told}: vLLM does not apply the adapter as it should; see {run}")
    return told


def versions() -> dict[str, str]:
    """The versions behind the figures."""
    import torch

    found = {name: metadata.version(name) for name in ("torch", "transformers", "trl", "vllm")}
    return found | {"cuda": torch.version.cuda or ""}


def speed(adapter: Path) -> dict[str, float]:
    """Seconds a step without the first, and the peak of GPU memory in GB, from a training's metrics."""
    rows = [json.loads(line) for line in (adapter / "metrics.jsonl").read_text().splitlines()]
    later = rows[1:] or rows
    seconds = sum(row["seconds"] for row in later) / len(later)
    found = {"steps": len(rows), "seconds_per_step": round(seconds, 3), "gpu_gb": max(row["gpu_gb"] for row in rows)}
    mismatch = {"mismatch": rows[0]["mismatch"]} if "mismatch" in rows[0] else {}  # measured at the first step
    return found | mismatch | {"loss": rows[-1]["loss"]}


def find_gpu() -> Gpu | str:
    """The first GPU, or why there is none."""
    import torch

    if torch.cuda.is_available():
        found = torch.cuda.get_device_properties(0)
        return Gpu(found.name, found.total_memory / GB)
    if shutil.which("nvidia-smi") is None:
        return "no NVIDIA GPU was found (there is no nvidia-smi)"
    return f"torch {torch.__version__} does not see a GPU: install the CUDA build, `pip install -e '.[train,serve]'`"


def check(folder: Path, gpu: Gpu) -> Check:
    """All commands. Raises `Failed` at the first that fails."""
    done = Check(folder, gpu)
    demonstrations = folder / "demonstrations"
    shown = ("configs/demonstrations.yaml", "learning.worlds=8", "learning.rounds=3")
    done.lab("demonstrations", "experiment", *configured(*shown), "--out", str(demonstrations))
    done.train("sft", done.lock("sft", total_steps=_SFT_STEPS), f"data=[{demonstrations}]", "parent=packaged")
    grpo = done.train(
        "grpo",
        done.lock("grpo", total_steps=_GRPO_STEPS),
        *("parent=packaged", f"out={folder}/rounds", "turns=sleep", "rollouts=[configs/rollouts.yaml]", "heldout=[]"),
    )
    data = f"data=[{folder}/rounds/round-1/run]"
    done.train("preference", done.lock("preference", total_steps=_PREFERENCE_STEPS), data, "parent=packaged")
    tested = ("configs/heldout.yaml", "learning.arms=[off,oracle]", "learning.worlds=8", "learning.rounds=2")
    heldout = folder / "heldout"
    done.lab("held-out", "experiment", *configured(*tested, f"model.adapter={grpo}"), "--out", str(heldout))
    done.measured["heldout"] = solved_with_rules(heldout)
    return done


def remove_earlier(folder: Path) -> bool:
    """Removes the folder of an earlier check, which has the log of its first command, or an empty one. False for any
    other."""
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / "demonstrations.log").is_file()):
        return False
    shutil.rmtree(folder)
    return True


def main() -> int:
    """The exit code."""
    folder = Path(sys.argv[1] if sys.argv[1:] else "runs/gpu-check")
    gpu = find_gpu()
    if isinstance(gpu, str):
        print(f"gpu-check: skipped: {gpu}")
        return 0
    if folder.exists() and not remove_earlier(folder):
        print(f"gpu-check: {folder} is not empty and not of an earlier check: give another folder", file=sys.stderr)
        return 2
    folder.mkdir(parents=True)
    print(f"{gpu.name}, {gpu.memory:.0f} GB")
    try:
        done = check(folder, gpu)
    except Failed as error:
        print(error)
        return 1
    (folder / "report.json").write_text(json.dumps(done.measured, indent=2) + "\n")
    for method in ("sft", "grpo", "preference"):
        found = done.measured[method]
        print("\n".join(found.pop("plan")))
        print("  measured ", ", ".join(f"{name} {value}" for name, value in found.items()))
    print(done.measured["heldout"])
    print(f"all commands ran; figures in {folder / 'report.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
