from collections.abc import Callable

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.tasks.system_admin.rotation import FAMILY
from tests.tasks.system_admin.beliefs import draw, judged, solved

pytestmark = pytest.mark.anyio
OpenSandbox = Callable[[], Sandbox]


@pytest.mark.parametrize(
    ("command", "criterion"),
    [
        ("touch {path}.9", "old"),
        ("ln -f {path}.1 {path}.2", "old"),
        ("chmod 600 {path}.1", "old"),
        ("echo more >> {path}.2", "old"),
        ("mv {path}.1 /tmp/old; ln -s /tmp/old {path}.1", "old"),
        ("chmod 4755 {path}", "current"),
        ("echo more > {path}", "current"),
        ("ln -f {path} {held}", "current"),
        ("rm {held}", "current"),
        ("rm {path}", "rotated"),
        ("cp {path}.1 {path}", "rotated"),
        ("echo >> {config}", "inputs_untouched"),
    ],
)
async def test_what_is_left_otherwise_is_noticed(open_sandbox: OpenSandbox, command: str, criterion: str) -> None:
    instance, _ = draw(FAMILY, "train", 2)
    words = {"path": f"{instance.folder}/{instance.before.log}", "held": instance.held, "config": instance.inputs[0]}
    found = await judged(FAMILY, instance, None, open_sandbox, command.format(**words))
    assert found[criterion].score == 0.0


async def test_a_writer_is_told_from_one_that_follows_a_renamed_log(open_sandbox: OpenSandbox) -> None:
    """What the writer holds open gets its next line: into the log where it was emptied, into the old one else."""
    instance, rules = draw(FAMILY, "train", 2)
    (in_place,) = [rule for rule in rules if rule and rule.type == "in_place"]
    write = f"echo later >> {instance.held}; grep -l later {instance.folder}/* > /tmp/where; cat /tmp/where"
    for rule, file in ((None, f"{instance.before.log}.1"), (in_place, instance.before.log)):
        assert solved((await judged(FAMILY, instance, rule, open_sandbox)).values())
        moved = await judged(
            FAMILY, instance, rule, open_sandbox, write, f"grep -q /{file}$ /tmp/where || rm -r {instance.folder}"
        )
        assert moved["rotated"].score == float(rule is None or file == instance.before.log)


async def test_any_level_of_compression_will_do(open_sandbox: OpenSandbox) -> None:
    instance, rules = draw(FAMILY, "train", 2)
    (zipped,) = [rule for rule in rules if rule and rule.type == "zipped"]
    again = f"cd {instance.folder} && gunzip *.gz && gzip -1 {instance.before.log}.[{zipped['first']}-9]"
    assert solved((await judged(FAMILY, instance, zipped, open_sandbox, again)).values())
