from collections.abc import Callable

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.tasks.system_admin.dropins import FAMILY
from tests.tasks.system_admin.beliefs import draw, judged, solved

pytestmark = pytest.mark.anyio
OpenSandbox = Callable[[], Sandbox]


@pytest.mark.parametrize("mode", ["664", "604", "755"])
async def test_a_mode_matters_only_as_far_as_the_main_file_tells(open_sandbox: OpenSandbox, mode: str) -> None:
    instance, _ = draw(FAMILY, "train", 2)
    assert "writable by their owner and readable by everybody" in instance.files[f"{instance.folder}/main.conf"]
    command = f"chmod {mode} {instance.folder}/conf.d/{instance.wish.number}-{instance.wish.name}.conf"
    assert solved((await judged(FAMILY, instance, None, open_sandbox, command)).values())


async def test_order_comments_and_spacing_do_not_matter(open_sandbox: OpenSandbox) -> None:
    instance, _ = draw(FAMILY, "train", 2)
    reformatted = (
        "f=$(echo */*/*/conf.d/*NAME* */*/conf.d/*NAME* */*/*/*/conf.d/*NAME* | tr ' ' '\\n' | grep -v '[*]'); "
    )
    command = reformatted.replace("NAME", instance.wish.name) + (
        "{ echo '# by hand'; tac $f | sed 's/ = /=/'; echo; } > /tmp/new; cat /tmp/new > $f"
    )
    assert solved((await judged(FAMILY, instance, None, open_sandbox, command)).values())


@pytest.mark.parametrize(
    ("command", "criterion"),
    [
        ("cp {new} {new}.bak", "read"),
        ("chmod o+w {new}", "read"),
        ("chmod g+s {new}", "read"),
        ("chmod o-r {new}", "read"),
        ("ln {new} second", "read"),
        ("mv {new} kept; ln -s $PWD/kept {new}", "drop_in_present"),
        ("echo 'extra = 1' >> {new}", "effective"),
        ("sed -i '1d' {new}", "effective"),
        ("echo >> {folder}/main.conf", "inputs_untouched"),
    ],
)
async def test_what_lies_otherwise_is_noticed(open_sandbox: OpenSandbox, command: str, criterion: str) -> None:
    instance, _ = draw(FAMILY, "train", 2)
    new = f"{instance.folder}/conf.d/{instance.wish.number}-{instance.wish.name}.conf"
    found = await judged(FAMILY, instance, None, open_sandbox, command.format(new=new, folder=instance.folder))
    assert found[criterion].score == 0.0


def test_what_a_ticket_names_is_in_no_path_that_is_there() -> None:
    for key in range(300):
        for split in FAMILY.words:
            instance, _ = draw(FAMILY, split, key)
            assert not any(instance.wish.name in path for path in instance.files)
