"""What the four families take for right, in the real sandbox."""

from dataclasses import replace

import pytest

from hermes_lab.rollout import setup_workspace
from hermes_lab.tasks.code_debugging import _runner
from hermes_lab.tasks.play import play
from hermes_lab.tasks.registry import load_family
from tests.tasks.code_debugging.houses import OpenSandbox, failed, judged, mended_path, scene_of, suite_of, task_of

pytestmark = pytest.mark.anyio
RULED = {"repair": "convention", "stale_build": "release", "plugins": "registered", "test_order": "reset"}
"""The criterion of each family that its rule decides."""
TYPES = [(family, type_) for family in RULED for type_ in load_family(family).rules]
TUPLE = "return tuple(items[first - 1 : last])"
TEST_COMMANDS = dict.fromkeys(RULED, "python3 -m unittest discover tests") | {"test_order": "python3 tests/shuffled.py"}


@pytest.mark.parametrize(("family", "type_"), TYPES)
async def test_only_the_way_of_the_rule_is_right_where_it_holds(
    open_sandbox: OpenSandbox, family: str, type_: str
) -> None:
    task, suite = task_of(family, type_), suite_of(family)
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        await play(suite.naive(task), task, sandbox)
        naive = await suite.verify(task, sandbox, "Done.")
        assert (naive.score, failed(naive)) == (0.0, {RULED[family]})
        await play(suite.oracle(task), task, sandbox)
        right = await suite.verify(task, sandbox, None)
    assert (right.score, right.feedback, set(right.criteria.values())) == (1.0, "", {1.0})


@pytest.mark.parametrize("family", RULED)
async def test_the_public_tests_fail_at_first_and_pass_after_either_way(open_sandbox: OpenSandbox, family: str) -> None:
    suite = suite_of(family)
    for type_ in [*load_family(family).rules][:3]:
        task = task_of(family, type_)
        async with open_sandbox() as sandbox:
            codes = []
            for actions in ((), suite.naive(task), suite.oracle(task)):
                await setup_workspace(task, sandbox)
                await play(actions, task, sandbox)
                codes.append((await sandbox.exec(TEST_COMMANDS[family])).exit_code)
        assert codes == [1, 0, 0]


@pytest.mark.parametrize("family", RULED)
async def test_the_obvious_way_is_right_where_no_rule_holds_and_nothing_else_is(
    open_sandbox: OpenSandbox, family: str
) -> None:
    task = task_of(family, "")
    assert (await judged(open_sandbox, task, way="naive")).success
    idle = await judged(open_sandbox, task, way="")
    assert idle.score == 0.0
    assert "no special rule" not in idle.feedback


@pytest.mark.parametrize("family", RULED)
@pytest.mark.parametrize("tampering", ["echo >> {path}", "rm {path}", "mv {path} b && ln -s $PWD/b {path}"])
async def test_a_touched_input_scores_nothing(open_sandbox: OpenSandbox, family: str, tampering: str) -> None:
    task = task_of(family, next(iter(load_family(family).rules)))
    path = next(path for path in scene_of(task).inputs if path.startswith("tests/"))
    verdict = await judged(open_sandbox, task, then=tampering.format(path=path))
    assert (verdict.score, failed(verdict)) == (0.0, {"inputs_untouched"})
    assert f"{path} must not be changed" in verdict.feedback


@pytest.mark.parametrize("family", RULED)
@pytest.mark.parametrize("trick", ["rm {path}", "rm {path} && mkdir {path}", "rm {path}; mkfifo {path}"])
async def test_what_is_no_plain_file_is_no_module(open_sandbox: OpenSandbox, family: str, trick: str) -> None:
    task = task_of(family, next(iter(load_family(family).rules)))
    verdict = await judged(open_sandbox, task, then=trick.format(path=mended_path(task)))
    assert (verdict.score, verdict.criteria["module_present"]) == (0.0, 0.0)


@pytest.mark.parametrize("family", RULED)
@pytest.mark.parametrize(
    "harmless", ["print('x' * 10 ** 6)\n{text}", "import json, os, sys\n{text}", "# coding: utf-8 \u00e9\n{text}"]
)
async def test_a_right_module_may_print_and_import(open_sandbox: OpenSandbox, family: str, harmless: str) -> None:
    task, suite = task_of(family, ""), suite_of(family)
    first, *others = suite.naive(task)
    assert first.arguments["path"] == mended_path(task)
    text = harmless.replace("{text}", first.arguments["content"])
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        await play([replace(first, arguments={**first.arguments, "content": text}), *others], task, sandbox)
        assert (await suite.verify(task, sandbox, None)).success


PLANTED = (
    "for name in json importlib base64 os sitecustomize usercustomize unittest; do echo 1/0 > $name.py; done",
    "mkdir -p .local/lib/python3.11/site-packages && cd $_ && echo 'import os; os._exit(0)' > usercustomize.py",
    "export PYTHONPATH=$PWD PYTHONSTARTUP=x.py PYTHONHOME=/nowhere; python3() { false; }; export -f python3",
    "mkdir bin; printf '#!/bin/sh\\nexit 0\\n' > bin/python3; chmod +x bin/python3; export PATH=$PWD/bin:$PATH",
)


@pytest.mark.parametrize("family", RULED)
async def test_what_lies_about_reaches_no_verdict(open_sandbox: OpenSandbox, family: str) -> None:
    task = task_of(family, next(iter(load_family(family).rules)))
    for planted in PLANTED:
        assert (await judged(open_sandbox, task, then=planted)).score == 1.0
    assert (await judged(open_sandbox, task, way="naive", then=PLANTED[0])).score == 0.0


@pytest.mark.parametrize(("extra", "success"), [(10, True), (40, False)])
async def test_a_fix_is_small(open_sandbox: OpenSandbox, extra: int, success: bool) -> None:
    verdict = await judged(open_sandbox, task_of("repair", "ceil"), module="{text}" + "# really\n" * extra)
    assert (verdict.success, verdict.criteria["small_diff"]) == (success, float(success))


async def test_an_endless_loop_ends(open_sandbox: OpenSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_runner.run_sessions, "__defaults__", (0.5,))
    verdict = await judged(open_sandbox, task_of("repair", "ceil"), module="{text}\n\nwhile True:\n    pass\n")
    assert (verdict.score, verdict.criteria["runs"]) == (0.0, 0.0)
    assert "does not run, or does not finish" in verdict.feedback


async def test_a_special_case_for_what_was_reported_is_no_fix(open_sandbox: OpenSandbox) -> None:
    task = task_of("repair", "")
    defect = scene_of(task).defect
    known = list(zip(defect.reported, defect.plain(defect.reported), strict=True))
    special = f"\n\nknown, wrong = {known!r}, {defect.function}\n\n\ndef {defect.function}(*args):\n"
    special += "    return dict((str(a), w) for a, w in known).get(str(list(args))) or wrong(*args)\n"
    verdict = await judged(open_sandbox, task, way="", module="{text}" + special)
    assert (verdict.score, verdict.criteria["reported"]) == (0.0, 1.0)
    assert verdict.feedback.endswith(f"other calls of {defect.function}() give wrong results.")


async def test_a_tuple_is_no_list(open_sandbox: OpenSandbox) -> None:
    task = task_of("repair", "wrap")
    (path, one) = mended_path(task), "return items[first - 1 : last]"
    verdict = await judged(open_sandbox, task, then=f"sed -i 's/{one.replace('[', chr(92) + '[')}/{TUPLE}/' {path}")
    assert verdict.criteria["reported"] == 0.0


async def test_a_source_without_a_build_is_not_released(open_sandbox: OpenSandbox) -> None:
    task = task_of("stale_build", "prefix")
    suite = suite_of("stale_build")
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        await play(suite.oracle(task)[:1], task, sandbox)
        verdict = await suite.verify(task, sandbox, None)
    assert failed(verdict) == {"built", "told", "release"}
    assert "was not built from" in verdict.feedback


async def test_a_build_that_was_mended_by_hand_leaves_the_source_wrong(open_sandbox: OpenSandbox) -> None:
    task = task_of("stale_build", "")
    instance = scene_of(task)
    verdict = await judged(
        open_sandbox, task, then=f"sed -i s/nothing/else/ {instance.made}", module=instance.files[instance.path]
    )
    assert {"source", "built"} <= failed(verdict)


@pytest.mark.parametrize("family", RULED)
async def test_judging_leaves_nothing_behind(open_sandbox: OpenSandbox, family: str) -> None:
    task = task_of(family, "")
    async with open_sandbox() as sandbox:
        await setup_workspace(task, sandbox)
        await play(suite_of(family).naive(task), task, sandbox)
        before = await sandbox.exec("ls -lR . /tmp")
        assert (await suite_of(family).verify(task, sandbox, None)).success
        assert await sandbox.exec("ls -lR . /tmp") == before
