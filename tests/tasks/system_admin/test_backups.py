import re
import shlex
from collections.abc import Callable

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.tasks.system_admin.backups import FAMILY
from tests.tasks.system_admin.beliefs import draw, judged, solved

pytestmark = pytest.mark.anyio
OpenSandbox = Callable[[], Sandbox]


def edit(expression: str) -> str:
    return f"sed -i {shlex.quote(expression)} bin/backup.sh"


BY_TAR = """cat > bin/backup.sh <<'EOF'
#!/usr/bin/env bash
set -e
n=SLUG; rm -rf backup/$n; mkdir -p backup/$n
tar -C srv/$n --sparse --exclude=./SKIPPED -cf - . | tar -C backup/$n -xpf -
cd backup/$n && find . -type f -print0 | xargs -0 sha256sum > ../$n.sums
EOF"""


async def test_another_program_that_does_the_same_will_do(open_sandbox: OpenSandbox) -> None:
    instance, _ = draw(FAMILY, "train", 2)
    by_tar = BY_TAR.replace("SLUG", instance.site_config.slug).replace("SKIPPED", instance.site_config.skipped)
    assert solved((await judged(FAMILY, instance, None, open_sandbox, by_tar)).values())


@pytest.mark.parametrize(
    ("command", "criterion"),
    [
        (edit("s/cp -a/cp -r/"), "copy"),
        (edit("s/cp -a/cp -a --no-preserve=mode/"), "copy"),
        (edit("s/cp -a/cp -a --no-preserve=timestamps/"), "copy"),
        (edit("s/cp -a/cp -aL/"), "copy"),
        (edit("s/cp -a/cp -al/"), "copy"),
        (edit("s/cp -a/cp -a --sparse=never/"), "sparse"),
        (edit("s/xargs -rd .*n. /xargs -r /"), "runs"),
        (edit("s/^rm -rf .*copy.$/true/"), "copy"),
        ("echo 'date +%N >> ../now' >> bin/backup.sh", "repeatable"),
        ("echo 'touch ../more' >> bin/backup.sh", "sums"),
        ("echo 'exit 3' >> bin/backup.sh", "runs"),
        ("chmod -x bin/backup.sh", "runs"),
        ("rm bin/backup.sh", "script_present"),
        ("mv bin/backup.sh b; ln -s $PWD/b bin/backup.sh", "script_present"),
        ("find srv -name '*.txt' -exec sh -c 'echo >> \"$1\"' - {} ';'", "inputs_untouched"),
    ],
)
async def test_what_is_copied_otherwise_is_noticed(open_sandbox: OpenSandbox, command: str, criterion: str) -> None:
    instance, _ = draw(FAMILY, "train", 2)
    found = await judged(FAMILY, instance, None, open_sandbox, command)
    assert found[criterion].score == 0.0


async def test_a_script_that_knows_only_the_names_of_today_fails(open_sandbox: OpenSandbox) -> None:
    instance, _ = draw(FAMILY, "train", 2)
    first = instance.site_config.folders[0]
    today = edit(f"s|^cp -a.*|mkdir -p $copy/{first}; cp -a $(find srv -path '*/{first}/*-*.txt') $copy/{first}|")
    assert (await judged(FAMILY, instance, None, open_sandbox, today))["copy"].score == 0.0


async def test_judging_leaves_nothing_behind(open_sandbox: OpenSandbox) -> None:
    instance, _ = draw(FAMILY, "train", 2)
    look = "find . /tmp -printf '%p %i %s %m\\n' | sort"
    async with open_sandbox() as sandbox:
        for path, text in instance.files.items():
            await sandbox.write(path, text.encode())
        await sandbox.write("bin/backup.sh", b"#!/bin/sh\nmkdir -p backup\n")
        before = (await sandbox.exec(look)).output
        await FAMILY.judge(instance, None, sandbox, None)
        assert (await sandbox.exec(look)).output == before


def test_a_mark_has_the_article_that_it_needs() -> None:
    told = set()
    for key in range(60):
        _, rules = draw(FAMILY, "train", key)
        told |= {
            text for rule in rules if rule and rule.type == "sized" for text in (*rule.paraphrases, rule.instruction)
        }
    assert any("an equals sign" in text for text in told)
    assert not any(re.search(r"\ba [aeiou]", text) for text in told)
