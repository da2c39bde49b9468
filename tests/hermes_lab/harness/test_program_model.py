"""Scripted policies as the model of a program."""

import anyio
import pytest

from hermes_lab.harness.program import Shell
from hermes_lab.harness.scripted import ProgramModel
from hermes_lab.models.scripted import ScriptedModel
from hermes_lab.tasks.conversation import Conversation
from hermes_lab.types import Message

TOOL = {"type": "function", "function": {"name": "sh", "description": "Runs a command."}}


def listed(system: str) -> dict[str, str]:
    """The skills that a policy is told of, given a program's system prompt."""
    told: list[dict[str, str]] = []

    def policy(messages: object) -> Message:
        told.append(dict(Conversation.read(messages).skills))  # type: ignore[arg-type]
        return Message(role="assistant", content="Done.")

    model = ProgramModel(ScriptedModel(policy), Shell("sh"), "/home/skills", ["Work."], lambda _: False)
    prompt = (Message(role="system", content=system), Message(role="user", content="Work."))
    anyio.run(model.generate, prompt, (TOOL,))
    return told[0]


@pytest.mark.parametrize(
    "line",
    [
        "- heating-desk: Rules of the heating desk",
        "- heating-desk: Rules of the heating desk (/home/skills/heating-desk/SKILL.md)",
        "* **heating-desk**: Rules of the heating desk",
        "* **heating-desk:** Rules of the heating desk",
        "1. `heating-desk` - Rules of the heating desk",
        "- heating-desk (/home/skills/heating-desk/SKILL.md): Rules of the heating desk",
        "| heating-desk | Rules of the heating desk |",
        "/home/skills/heating-desk/SKILL.md: Rules of the heating desk",
        "- `~/.mine/skills/heating-desk/SKILL.md` - Rules of the heating desk",
        "<skill><name>heating-desk</name><description>Rules of the heating desk</description></skill>",
        '[{"name": "heating-desk", "description": "Rules of the heating desk"}]',
        "- name: heating-desk\n  description: Rules of the heating desk",
    ],
)
def test_skills_are_found_however_a_program_lists_them(line: str) -> None:
    found = listed(f"You have skills.\n{line}\nUse them.")
    assert list(found) == ["heating-desk"]
    assert found["heating-desk"].startswith("Rules of the heating desk")


def test_prose_is_no_skill() -> None:
    assert listed("Note: read skills/NAME/SKILL.md first.\nThe desk: open.") == {}
