"""What the system prompt costs a small model, counted by its own tokenizer."""

import pytest

from hermes_lab.agent.prompt import Profile, system_prompt
from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.models.weights import resolve
from hermes_lab.sandbox import open_sandbox
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import SkillSession
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox

pytestmark = pytest.mark.long


@pytest.mark.parametrize(("profile", "most"), [("compact", 350), ("full", 960)])
def test_the_prompt_with_three_tools_leaves_room_to_work(profile: Profile, most: int) -> None:
    from transformers import AutoTokenizer

    config = SandboxConfig()
    skills = SkillSession(Library(), origin="foreground", episode="e", model="m")
    context = ToolContext(open_sandbox(config), skills, config)
    toolbox = Toolbox(("terminal", "skill_view", "skill_manage"), context, profile=profile)
    assert len(toolbox.schemas) == 3
    text = system_prompt(toolbox.schemas, "hermes", profile=profile)
    tokenizer = AutoTokenizer.from_pretrained(resolve("packaged"))
    assert len(tokenizer(text)["input_ids"]) < most
