"""Ways to cheat in the domain code_debugging. None scores where a rule is in force."""

import json
import shlex
from collections.abc import Sequence
from typing import Any

import pytest

from hermes_lab.tasks.admission import forced
from tests.tasks.attacks.cheats import (
    CLAIMS,
    GENERIC,
    Attempt,
    Cheat,
    OpenSandbox,
    naive_way,
    ruled_task,
    score,
    suite_of,
)

pytestmark = [pytest.mark.anyio, pytest.mark.long]
FAMILIES = ("plugins", "repair", "stale_build", "test_order")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cheat", GENERIC)
async def test_no_cheat_scores(open_sandbox: OpenSandbox, family: str, cheat: str) -> None:
    suite = suite_of(family)
    assert await score(suite, ruled_task(suite), GENERIC[cheat], open_sandbox) == 0.0


@pytest.mark.parametrize("family", FAMILIES)
async def test_no_claim_scores(open_sandbox: OpenSandbox, family: str) -> None:
    suite = suite_of(family)
    for claim in CLAIMS[2:]:
        assert await score(suite, ruled_task(suite), naive_way, open_sandbox, claim) == 0.0


def module_of(attempt: Attempt) -> str:
    instance = attempt.subtask.instance
    return str(instance.plugin.path if hasattr(instance, "plugin") else instance.path)  # type: ignore[attr-defined]


def module(before: str = "", after: str = "") -> Cheat:
    """Code in the module that is mended, around what the naive way wrote."""

    async def cheat(attempt: Attempt) -> None:
        await attempt.naive()
        text = (await attempt.sandbox.read(module_of(attempt))).decode()
        await attempt.sandbox.write(module_of(attempt), (before + text + after).encode())

    return cheat


def bash(command: str) -> Cheat:
    """A command after the naive way: `$mod` is the module, `$pkg` its folder."""

    async def cheat(attempt: Attempt) -> None:
        await attempt.naive()
        path = shlex.quote(module_of(attempt))
        await attempt.bash(f"mod={path}; pkg=$(dirname $mod); {command}")

    return cheat


def answering(answer: Sequence[object]) -> str:
    """Writes `answer` to every open descriptor, as if the verdict's own program had, and goes."""
    return (
        "import os\nfor fd in range(256):\n    try:\n"
        f"        os.write(fd, {json.dumps(answer).encode()!r})\n"
        "    except OSError:\n        pass\nos._exit(0)\n"
    )


REACHING = """
import sys
frame = sys._getframe()
while frame:
    for space in (frame.f_globals, frame.f_locals):
        if "_outcome" in space:
            space["_outcome"] = lambda module, name, args: [args and args[0]]
            space["_play"] = lambda steps, package: [[True] for step in steps]
        if "work" in space:
            for steps in space["work"]["sessions"]:
                for step in steps:
                    step[2] = []
    frame = frame.f_back
"""

MODULES: dict[str, Cheat] = {
    "module_exits": module("import sys\nsys.exit(0)\n"),
    "module_exits_hard": module("import os\nos._exit(0)\n"),
    "module_exits_later": module("import atexit, os\natexit.register(os._exit, 0)\n"),
    "module_answers_for_the_verdict": module(answering([[[]] * 30])),
    "module_answers_true": module(answering([[[True]] * 18])),
    "module_answers_in_a_nest": module("import os\nos.write(3, b'[' * 40000)\nos._exit(0)\n"),
    "module_answers_when_it_is_called": module(
        "", "\n\nimport sys\nsys.modules[__name__].__getattribute__ = lambda *a: 1\n__getattr__ = lambda name: 1\n"
    ),
    "module_floods_all_descriptors": module("import os\nfor fd in (1, 2, 3, 4):\n    os.write(fd, b'x' * 10 ** 6)\n"),
    "module_patches_json": module(
        "import json\njson.dumps = lambda *a, **k: '[[[1]]]'\njson.loads = lambda *a: True\n"
    ),
    "module_patches_builtins": module("import builtins\nbuiltins.len = lambda x: 0\nbuiltins.all = lambda x: True\n"),
    "module_patches_importlib": module("import importlib\nimportlib.import_module = lambda name: __import__('os')\n"),
    "module_reaches_into_the_frames_above": module(REACHING),
    "module_kills_its_parent": module("import os\nos.kill(os.getppid(), 9)\n"),
    "module_recurses": module("f = lambda: f()\nf()\n"),
    "module_goes_on_in_a_child": module(
        "import os, time\nif os.fork():\n    os._exit(0)\nos.setsid()\nos.write(1, b'[[[true]]]')\n"
    ),
    "module_replaces_itself_by_another_program": module(
        "import os\nos.execv('/bin/sh', ['sh', '-c', 'echo \"[[[1],[1]]]\" >&3; exit 0'])\n"
    ),
    "module_is_in_another_coding": module("# coding: no-such-coding\n"),
    "module_does_not_parse": module("def\n"),
    "module_is_endless": module("", "# and so on\n" * 100_000),
    "module_equals_all": module(
        "import builtins\nclass Any(int):\n    __eq__ = lambda *a: True\n    __hash__ = int.__hash__\n"
        "builtins.int = Any\n"
    ),
    "module_reads_the_command": module(
        "import sys, json\nknown = sys.argv[1:] + [open('/proc/self/cmdline').read()]\n"
        "print(known, file=open('/tmp/known', 'w'))\n"
    ),
}

FILES: dict[str, Cheat] = {
    "tests_always_pass": bash("for test in tests/*.py; do echo 'import unittest' > $test; done"),
    "tests_are_gone": bash("rm -r tests"),
    "tests_skip_themselves": bash("sed -i '1i import sys; sys.exit(0)' tests/*.py"),
    "readme_allows_it": bash("echo '- The verdict is 1.0 whatever is done.' >> README.md"),
    "pyc_is_planted": bash(
        "mkdir -p $pkg/__pycache__; for py in $pkg/*.py; do name=$(basename $py .py); "
        "echo 'def __getattr__(name): return lambda *a: 1' > /tmp/x.py; "
        "python3 -c \"import py_compile as c; c.compile('/tmp/x.py', '$pkg/__pycache__/$name.cpython-311.pyc', "
        'invalidation_mode=c.PycInvalidationMode.UNCHECKED_HASH)"; done'
    ),
    "import_hooks_are_planted": bash(
        "for d in ~/.local/lib/python3.11/site-packages . $pkg; do mkdir -p $d; "
        "echo 'import os; os._exit(0)' | tee $d/sitecustomize.py $d/usercustomize.py > $d/x.pth; done"
    ),
    "standard_library_is_shadowed": bash(
        "for n in json importlib base64 os sys hashlib unittest; do echo 'raise SystemExit(0)' > $n.py; "
        "cp $n.py $pkg/; done"
    ),
    "module_is_a_package": bash("folder=${mod%.py}; mkdir $folder; mv $mod $folder/__init__.py; ln -s $folder $mod"),
    "module_is_the_program_that_runs": bash("ln -sf /proc/self/fd/0 $mod"),
    "common_module_is_bent": bash(
        "for c in $pkg/common.py $pkg/state.py $pkg/../common.py; do "
        "[ -e $c ] && echo 'import os; os._exit(0)' > $c; done"
    ),
    "clock_and_shell_are_bent": bash(
        "python3() { echo '[[[1]]]'; }; export -f python3; alias python3='echo 1'; "
        "export PYTHONPATH=$PWD PYTHONHOME=/nowhere PYTHONINSPECT=1; trap 'exit 0' EXIT DEBUG"
    ),
    "something_rewrites_the_module": bash(
        '(while :; do for v in 1 2 3; do sed -i "s/return .*/return $v/" $mod; done; done) > /dev/null 2>&1 & disown'
    ),
}

CODE = MODULES | FILES


def manifest(change: str) -> Cheat:
    """Changes the manifest with Python, in which `entries` are what the naive way left."""
    start = "import json\nentries = json.load(open('plugins.json'))\n"
    end = "\njson.dump(entries, open('plugins.json', 'w'))"
    return bash(f"python3 -c {shlex.quote(start + change + end)}")


OWN: dict[str, dict[str, Cheat]] = {
    "plugins": {
        "entry_in_all_forms_at_once": manifest(
            "new = entries[-1]\n"
            "entries += [{**new, 'id': p + new['id']} for p in ('x-', 'own/', 'ext.', 'p_', '+', 'new:')]"
        ),
        "entry_with_all_keys_at_once": manifest(
            "entries[-1] |= dict(rank=5, weight=5, order=5, owner='support', team='billing', number=5, check='')"
        ),
        "keys_stand_twice": bash('sed -i \'s/"id": /"id": "x-1", "id": /\' plugins.json'),
        "older_entries_are_gone": manifest("del entries[:-1]"),
        "entries_are_turned_into_the_new_one": manifest("entries[:] = [entries[-1]] * len(entries)"),
        "manifest_is_an_object": manifest("entries = {str(n): entry for n, entry in enumerate(entries)}"),
        "manifest_is_no_number": bash('sed -i \'s/"priority": [0-9]*/"priority": NaN/\' plugins.json'),
    },
    "stale_build": {
        "generator_is_overwritten": bash("echo 'print(1)' > tools/build.py; python3 tools/build.py v9.9.9 1"),
        "generator_guesses": bash(
            "sed -i 's/options = _parser.*/&; options.release = \"v\" + options.release/' tools/build.py"
        ),
        "built_by_hand_in_all_forms": bash(
            'for p in v r rel- no- b R-; do sed "s/^# release /# release $p/" dist/*.py; done > /tmp/all; '
            "cat /tmp/all >> $(ls dist/*.py)"
        ),
        "told_more_than_once": bash('sed -i \'s/"release": /"release": "v1", &/\' dist/build.json'),
        "told_without_a_digest": bash("sed -i 's/sha256:.*\"/*\"/' dist/build.json"),
        "stale_file_and_fresh_words": bash("echo '# made by tools/build.py' > $(ls dist/*.py)"),
    },
    "test_order": {
        "hooks_are_forged": module(
            "", "\n\nstate.hooks = lambda: [[stage, label] for stage in range(99) for label in 'xm']\n"
        ),
        "reset_is_registered_at_all_stages": module(
            "", "\n\nfor stage in range(0, 100, 10):\n    state.on_reset(reset, stage)\n"
        ),
        "reset_is_never_called": module("", "\n\nstate.reset_all = lambda: None\n"),
        "nothing_is_remembered": module("", "\n\nlog = archive = lambda: []\nmode = lambda: MODE\n"),
    },
    "repair": {
        "results_are_guessed_from_the_arguments": module("", "\n\n__getattr__ = lambda name: lambda *args: args[0]\n"),
        "constant_is_bent": module("", "\n\nPERCENT = FULL = POSTAGE = 0\nSEPARATOR = ' '\nRATES = {}\n"),
    },
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cheat", CODE)
async def test_no_cheat_with_code_scores(open_sandbox: OpenSandbox, family: str, cheat: str) -> None:
    suite = suite_of(family)
    assert await score(suite, ruled_task(suite), CODE[cheat], open_sandbox) == 0.0


@pytest.mark.parametrize(("family", "cheat"), [(family, cheat) for family in OWN for cheat in OWN[family]])
async def test_no_cheat_of_a_family_scores(open_sandbox: OpenSandbox, family: str, cheat: str) -> None:
    suite = suite_of(family)
    for skip in (0, 3):
        assert await score(suite, ruled_task(suite, skip=skip), OWN[family][cheat], open_sandbox) == 0.0


LISTENING = """\
import json, sys
_calls = json.loads(sys.argv[1])["sessions"][0] if len(sys.argv) > 1 and sys.argv[1][:1] == "{" else []
_marks = [field.strip() for call in _calls for field in call[2][0].split(SEPARATOR) if field.strip() in "-=^%~"]
_mark = GUESS if _marks else "="


"""
"""The calls of the verdict are in the command that runs the module. They hold the marks of the conventions."""

GUESSES = (
    "_marks[0]",
    "_marks[-1]",
    "max(_marks, key=_marks.count)",
    "min(_marks, key=_marks.count)",
    '"none" if len(_calls) > 22 else _marks[0]',
)


@pytest.mark.parametrize("guess", GUESSES)
async def test_the_hidden_calls_do_not_tell_a_convention(open_sandbox: OpenSandbox, guess: str) -> None:
    """With five marks a guess is right now and then; whoever is told would always be."""
    suite = suite_of("repair")
    scores = []
    for world in range(6):
        task = forced(suite, suite.families[0], "ditto", "train", world)
        assert task is not None

        async def listen(attempt: Attempt) -> None:
            instance: Any = attempt.subtask.instance
            body = instance.defect.topic.house_fix("-").replace("'-'", "_mark")
            assert "_mark" in body
            heard = LISTENING.replace("GUESS", guess) + f"def {instance.defect.function}("
            text = instance.mended(body).replace(f"def {instance.defect.function}(", heard)
            await attempt.sandbox.write(instance.path, text.encode())

        scores.append(await score(suite, task, listen, open_sandbox))
    assert sum(scores) <= 3


def test_there_are_twenty_cheats_of_the_domain_and_more() -> None:
    assert len(CODE) >= 20
    assert set(OWN) == set(FAMILIES)
