from collections.abc import Callable

import pytest

from hermes_lab.protocols import Sandbox
from hermes_lab.rollout import setup_workspace
from hermes_lab.tasks.system_admin.services import FAMILY
from tests.tasks.system_admin.beliefs import draw, judged, solved, task_of

pytestmark = pytest.mark.anyio
OpenSandbox = Callable[[], Sandbox]


@pytest.mark.parametrize(
    ("command", "criterion"),
    [
        ("sed -i s/{key}=.*/{key}=7/ {env}", "settings"),
        ("echo X=1 >> {env}", "settings"),
        ("./svc open {ticket} && ./svc probe {unit} && ./svc reload {unit} && ./svc close", "carried_out"),
        ("./svc open {ticket} && ./svc close", "carried_out"),
        (
            "echo X=1 >> {env}; ./svc open {ticket}; ./svc reload {unit}; ./svc close; sed -i /X=1/d {env}",
            "carried_out",
        ),
        ("./svc open {ticket} && ./svc reload {unit}", "recorded"),
        ("rm {record}", "recorded"),
        ("echo >> svc", "inputs_untouched"),
    ],
)
async def test_what_is_done_otherwise_is_noticed(open_sandbox: OpenSandbox, command: str, criterion: str) -> None:
    instance, _ = draw(FAMILY, "train", 2)
    words = {"key": instance.wish.key, "env": instance.env, "unit": instance.wish.unit, "ticket": instance.wish.ticket}
    found = await judged(FAMILY, instance, None, open_sandbox, command.format(**words, record=instance.record))
    assert found[criterion].score == 0.0


async def test_a_change_that_is_begun_again_is_judged_by_itself(open_sandbox: OpenSandbox) -> None:
    instance, _ = draw(FAMILY, "train", 2)
    wish = instance.wish
    again = f"./svc open {wish.ticket} && ./svc hold {wish.unit}; ./svc open {wish.ticket} && ./svc reload {wish.unit}"
    assert solved((await judged(FAMILY, instance, None, open_sandbox, f"{again} && ./svc close")).values())


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("reload {unit}", "no change is open; start one with ./svc open TICKET"),
        ("close", "no change is open"),
        ("open ../../x", "../../x is not a ticket"),
        ("open A-1 && ./svc reload nowhere", "no unit nowhere; the units are: {unit}"),
        ("reload {unit} --speed 3", "unrecognized arguments: --speed 3"),
    ],
)
async def test_the_controller_says_what_is_wrong(open_sandbox: OpenSandbox, call: str, says: str) -> None:
    instance, _ = draw(FAMILY, "train", 2)
    async with open_sandbox() as sandbox:
        await setup_workspace(task_of(instance), sandbox)
        told = await sandbox.exec(f"./svc {call.format(unit=instance.wish.unit)}")
    assert told.exit_code == 2
    assert says.format(unit=instance.wish.unit) in told.output
    assert "Traceback" not in told.output


async def test_the_controller_shows_who_runs_with_older_settings(open_sandbox: OpenSandbox) -> None:
    instance, _ = draw(FAMILY, "train", 2)
    unit = instance.wish.unit
    async with open_sandbox() as sandbox:
        await setup_workspace(task_of(instance), sandbox)
        before = await sandbox.exec(f"./svc status {unit}")
        after = await sandbox.exec(f"./svc open A-1 && ./svc reload {unit} && ./svc status {unit}")
    assert before.output == f"{unit}: runs with older settings\nopen change: none\n"
    assert after.output.endswith(f"{unit}: runs with its current settings\nopen change: A-1\n")
