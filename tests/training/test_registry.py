"""Lineage, held-out scores and pruning of the registry."""

import json
import os
from collections.abc import Iterable, Sequence
from itertools import repeat
from pathlib import Path

import msgspec
import pytest
from fakes.adapters import make_adapter
from fakes.episodes import episode, write_run

from hermes_lab.config.schema import RunConfig
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import RunManifest
from hermes_lab.models import adapters
from hermes_lab.models.adapters import adapter_digest
from hermes_lab.models.cards import read_card
from hermes_lab.records import read_episodes, write_json
from hermes_lab.training.adapters import new_version
from hermes_lab.training.evaluations import read_evaluations, score
from hermes_lab.training.lineage import lineage
from hermes_lab.training.prune import needless, remove
from hermes_lab.types import ModelIdentity


def make_run(
    run: Path,
    adapter: Path | None,
    results: Sequence[bool | None],
    wanted: int = 0,
    lanes: Iterable[str] = repeat("main"),
) -> Path:
    identity = (
        ModelIdentity("openai", "m", "", adapter.name, adapter_digest(adapter))
        if adapter
        else ModelIdentity("openai", "m")
    )
    config = RunConfig().model_dump(mode="json")
    config["model"]["adapter"] = str(adapter or "")
    manifest = RunManifest(
        command="run",
        config=config,
        config_digest="c",
        tasks_digest="",
        adapter_digest=identity.adapter_digest,
        wanted=wanted or len(results),
        created_at="",
        versions={},
    )
    write_json(run / "run.json", manifest)
    return write_run(
        run,
        *(
            episode(f"t{n}", lane=lane, success=solved, model=identity, status="errored" if solved is None else "ok")
            for n, (solved, lane) in enumerate(zip(results, lanes, strict=False))
        ),
    )


def child_of(parent: Path, name: str = "sft") -> Path:
    return make_adapter(parent.parent, name, parent=parent.name, parent_digest=adapter_digest(parent))


def test_a_score_is_kept_with_its_interval_beside_the_card(tmp_path: Path) -> None:
    adapter = make_adapter(tmp_path / "adapters")
    card = (adapter / "card.json").read_bytes()
    run = make_run(tmp_path / "run", adapter, [True] * 8 + [False, False])
    for _ in range(2):  # the same run once
        (one,) = score(adapter, run)
    assert read_evaluations(adapter) == [one]
    assert (one.suite, one.split, one.solved, one.n, one.unscored) == ("made-up", "train", 8, 10, 0)
    assert (round(one.low, 4), round(one.high, 4)) == (0.4902, 0.9433)  # Wilson's, for 8 of 10
    assert (adapter / "card.json").read_bytes() == card


def test_each_arm_of_an_experiment_has_its_own_score(tmp_path: Path) -> None:
    adapter = make_adapter(tmp_path / "adapters")
    lanes = [f"{arm}-r0-w{world}" for world in range(2) for arm in ("off", "on")]
    run = make_run(tmp_path / "run", adapter, [False, True, True, True], lanes=lanes)
    assert [(one.arm, one.solved, one.n) for one in score(adapter, run)] == [("off", 1, 2), ("on", 2, 2)]
    assert [one.sentence().partition(":")[0] for one in read_evaluations(adapter)] == [
        "made-up train, arm off",
        "made-up train, arm on",
    ]


def test_an_arm_that_nothing_judged_is_not_measured(tmp_path: Path) -> None:
    adapter = make_adapter(tmp_path / "adapters")
    lanes = ["off-r0-w0", "on-r0-w0"]
    run = make_run(tmp_path / "run", adapter, [True, True], lanes=lanes)
    write_run(
        run, *(msgspec.structs.replace(e, success=e.success if "off" in e.lane else None) for e in read_episodes(run))
    )
    score(adapter, run)
    assert [one.sentence() for one in read_evaluations(adapter)] == [
        f"made-up train, arm off: 1 of 1 solved, 100.0 % (20.7-100.0 %); {run}",
        f"made-up train, arm on: not measured, 1 unscored; {run}",
    ]


def test_a_run_counts_once_by_whatever_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = make_adapter(tmp_path / "adapters")
    run = make_run(tmp_path / "run", adapter, [True])
    monkeypatch.chdir(tmp_path)
    for path in (run, Path("run")):
        score(adapter, path)
    assert len(read_evaluations(adapter)) == 1


def test_a_score_of_other_weights_is_refused(tmp_path: Path) -> None:
    first, second = (make_adapter(tmp_path / "adapters") for _ in range(2))
    for other in (second, None):
        run = make_run(tmp_path / f"run-{other and other.name}", other, [True])
        with pytest.raises(ConfigError, match=r"t0 was served by (sft-v2|m), not by sft-v1"):
            score(first, run)
    assert read_evaluations(first) == []


@pytest.mark.parametrize(
    ("results", "wanted", "problem"),
    [([True], 3, "2 episodes are missing"), ([True, None], 2, "1 episodes are missing")],
)
def test_an_unfinished_run_gives_no_score(
    tmp_path: Path, results: list[bool | None], wanted: int, problem: str
) -> None:
    adapter = make_adapter(tmp_path / "adapters")
    with pytest.raises(ConfigError, match=problem):
        score(adapter, make_run(tmp_path / "run", adapter, results, wanted))


def test_a_lineage_goes_back_to_the_bare_model(tmp_path: Path) -> None:
    first = make_adapter(tmp_path)
    last = child_of(child_of(first), "grpo")
    score(first, make_run(tmp_path / "run", first, [True, False]))
    found = lineage(last, tmp_path)
    assert [ancestor.card.name for ancestor in found.chain] == ["grpo-v1", "sft-v2", "sft-v1"]
    text = "\n".join(found.lines())
    for part in (
        "1 of 2 solved, 50.0 % (9.5-90.5 %)",
        adapter_digest(last),
        "  refused   3 not accepted\n",
        read_card(first).lock_digest,
        "packaged: the base",
    ):
        assert part in text
    assert json.loads(msgspec.json.encode(found.to_dict()))["chain"][2]["evaluations"][0]["n"] == 2


def test_a_lost_parent_is_named(tmp_path: Path) -> None:
    orphan = make_adapter(tmp_path, parent="sft-v9", parent_digest="9" * 64)
    assert lineage(orphan, tmp_path).lines()[-1] == "sft-v9 (999999999999): not in the registry"


def age(folder: Path) -> Path:
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (0, 0))
    return folder


def test_pruning_keeps_the_newest_ancestors_and_what_runs_name(tmp_path: Path) -> None:
    root = tmp_path / "adapters"
    parent, superseded, named, served, newest = (make_adapter(root) for _ in range(5))
    child_of(parent, "grpo")
    make_run(tmp_path / "runs" / "a", named, [True])
    run = make_run(tmp_path / "runs" / "b", None, [True])
    manifest = json.loads((run / "run.json").read_text())
    manifest["config"]["learning"]["adapters"] = [f"sft-v4-{adapter_digest(served)[:12]}"]
    (run / "run.json").write_text(json.dumps(manifest))
    left, begun = age(new_version(root, "sft")), new_version(root, "sft")
    assert needless(root, tmp_path / "runs") == [(left, "unfinished"), (superseded, "superseded by sft-v5")]
    remove(needless(root, tmp_path / "runs"))
    assert {path.name for path in root.iterdir()} == {
        *(path.name for path in (parent, named, served, newest, begun)),
        "grpo-v1",
    }


def test_pruning_keeps_the_parent_of_an_unfinished_training(tmp_path: Path) -> None:
    parent, _ = make_adapter(tmp_path), make_adapter(tmp_path)
    assert [item.folder for item in needless(tmp_path, tmp_path)] == [parent]
    write_json(new_version(tmp_path, "grpo") / "checkpoints" / "made_from.json", {"parent": adapter_digest(parent)})
    assert needless(tmp_path, tmp_path) == []


def test_pruning_keeps_what_a_grpo_training_may_resume(tmp_path: Path) -> None:
    root, out = tmp_path / "adapters", tmp_path / "runs" / "loop" / "grpo"
    start, _, first, _ = make_adapter(root), make_adapter(root), make_adapter(root, "grpo"), make_adapter(root, "grpo")
    killed = age(new_version(root, "grpo"))
    assert {item.folder.name for item in needless(root, tmp_path)} == {"sft-v1", "grpo-v1", "grpo-v3"}
    write_json(out / "checkpoints" / "made_from.json", {"parent": adapter_digest(start)})
    for number, version in enumerate((first, killed), 1):
        write_json(out / f"round-{number}" / "version.json", {"folder": str(version)})
    assert needless(root, tmp_path / "runs") == []


def test_the_packaged_adapter_is_never_pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged, _ = make_adapter(tmp_path), make_adapter(tmp_path)
    monkeypatch.setattr(adapters, "_PACKAGED_FOLDER", packaged)
    assert needless(tmp_path, tmp_path) == []
