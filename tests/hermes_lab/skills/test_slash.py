"""A skill that a message names with a slash: where arguments go, and what its commands do."""

from collections.abc import AsyncIterator

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import RunConfig, SkillsConfig
from hermes_lab.protocols import Sandbox
from hermes_lab.sandbox import open_sandbox
from hermes_lab.skills import format as skill_format
from hermes_lab.skills.library import Library
from hermes_lab.skills.session import SkillSession
from hermes_lab.skills.slash import expand, expand_typed

CONFIG = RunConfig()


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with open_sandbox(SandboxConfig()) as box:
        yield box


def session(**bodies: str) -> SkillSession:
    texts = [
        skill_format.render("test", "How to test", "Run it."),
        skill_format.render("fleet-totals", "How totals are made", "Sum them."),
        skill_format.render("old-ways", "How it was", "Do not.", state="archived"),
        *(skill_format.render(name, "d", body) for name, body in bodies.items()),
    ]
    skills = [skill_format.parse(text) for text in texts]
    return SkillSession(Library(skills), origin="foreground", episode="e", model="m")


async def loaded(body: str, arguments: str, sandbox: Sandbox, config: RunConfig = CONFIG, head: str = "") -> str:
    """What the message has of the skill's body, and what is asked behind it."""
    text = skill_format.render("do", "d", body).replace("---\n\n", f"{head}---\n\n", 1)
    skills = SkillSession(Library([skill_format.read(text)]), origin="foreground", episode="e", model="m")
    message, _ = await expand_typed(f"/do {arguments}", skills, sandbox, config)
    return message.partition("---\n\n")[2].replace("</skill>\n\n", "| ")


@pytest.mark.anyio
async def test_the_skill_stands_before_what_is_asked(sandbox: Sandbox) -> None:
    s = session()
    message = await expand(" /fleet-totals for\nMay ", s, sandbox, CONFIG)
    assert message.startswith("Follow the skill fleet-totals:\n\n<skill>\n---\nname: fleet-totals\n")
    assert message.endswith("Sum them.\n</skill>\n\nfor\nMay")
    assert "hermes-" not in message
    assert s.loaded == ["fleet-totals"]
    assert (await expand("/test", s, sandbox, CONFIG)).endswith("Do what the skill describes.")


@pytest.mark.anyio
@pytest.mark.parametrize("prompt", ["/tests fail", "/fleet_totals x", "/Test", "/usr/bin is full", "/", "a /test"])
async def test_a_task_names_a_skill_exactly_or_not_at_all(prompt: str, sandbox: Sandbox) -> None:
    s = session()
    assert await expand(prompt, s, sandbox, CONFIG) == prompt
    assert s.loaded == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("prompt", "loaded", "note"),
    [
        ("/fleet-totals do it", "fleet-totals", "loaded the skill fleet-totals"),
        ("/fleet-total do it", "", ""),
        ("/Fleet_Totals", "", ""),
        ("/old-ways now", "old-ways", "loaded the skill old-ways, which is archived"),
        ("/old-way now", "", ""),
        ("/nope", "", ""),
        ("/usr/bin is full", "", ""),
        ("hello", "", ""),
    ],
)
async def test_a_person_is_told_what_became_of_the_name(prompt: str, loaded: str, note: str, sandbox: Sandbox) -> None:
    s = session()
    expanded = await expand_typed(prompt, s, sandbox, CONFIG)
    assert expanded.note == note
    assert s.loaded == ([loaded] if loaded else [])
    assert expanded.message.startswith(f"Follow the skill {loaded}:" if loaded else prompt)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "arguments", "message"),
    [
        ("Fix $ARGUMENTS now.", "12 high", "Fix 12 high now.\n| Do what the skill describes."),
        ("Fix $ARGUMENTS.", "", "Fix .\n| Do what the skill describes."),
        ("Fix it.", "12", "Fix it.\n| 12"),
        ("From $1 to $2.", "a 'b c'", "From a to b c.\n| Do what the skill describes."),
        ("From $0 to $1.", "a b", "From a to b.\n| Do what the skill describes."),
        ("From $ARGUMENTS[0] to $ARGUMENTS[1].", "a b", "From a to b.\n| Do what the skill describes."),
        ("From $1 to $2.", "a", "From a to $2.\n| Do what the skill describes."),
        ("From $1.", "it's", "From it's.\n| Do what the skill describes."),
        ("It costs $1.50, $1,000 or $1M.", "a", "It costs $1.50, $1,000 or $1M.\n| a"),
        (
            "```\nawk '{print $1}'\n```\nOf $1.",
            "a",
            "```\nawk '{print $1}'\n```\nOf a.\n| Do what the skill describes.",
        ),
        ("Say $1.", "'$2 $ARGUMENTS'", "Say $2 $ARGUMENTS.\n| Do what the skill describes."),
        ("Say $1.", "'!`echo x`'", "Say !`echo x`.\n| Do what the skill describes."),
        ("In ${CLAUDE_SKILL_DIR}.", "x", "In /app/skills/do.\n| x"),
    ],
)
async def test_arguments_take_their_places(body: str, arguments: str, message: str, sandbox: Sandbox) -> None:
    assert await loaded(body, arguments, sandbox) == message


@pytest.mark.anyio
async def test_arguments_have_names(sandbox: Sandbox) -> None:
    for head in ("arguments: [issue, old-name]\n", "arguments: issue old-name\n"):
        found = await loaded("Fix $issue in $old-name: !`echo $issue`, $issues.", "7 x", sandbox, head=head)
        assert found.startswith("Fix 7 in x: 7, $issues.\n")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "arguments", "text"),
    [
        ("Now: !`echo one; echo two >&2`.", "", "Now: one\ntwo."),
        ("!`echo $1-$2`", "a 'b; exit 3'", "a-b; exit 3"),
        ('!`echo "$ARGUMENTS"`', "a $(exit 3)", "a $(exit 3)"),
        ("!`echo $0-$ARGUMENTS[1]`", "a b", "a-b"),
        ("```!\nx=1\necho $x\n```", "", "1"),
        ("Shown:\n```\n!`echo no`\n```\n", "", "Shown:\n```\n!`echo no`\n```"),
        ("It is wow!`echo no`.", "", "It is wow!`echo no`."),
        ("!`echo x; exit 3`", "", "x\n[the command failed with exit code 3: echo x; exit 3]"),
        ("!`nocommand`", "", "bash: line 1: nocommand: command not found\n[the command failed with exit code 127"),
        ("!`printf 'x%.0s' {1..5000}`", "", f"{'x' * 4000}\n[... 1000 characters cut]"),
    ],
)
async def test_commands_run_in_the_sandbox_and_their_failure_is_said(
    body: str, arguments: str, text: str, sandbox: Sandbox
) -> None:
    assert (await loaded(body, arguments, sandbox)).startswith(text)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("mode", "backend", "runs"),
    [
        ("isolated", "bubblewrap", True),
        ("isolated", "local", False),
        ("always", "bubblewrap", True),
        ("always", "local", True),
        ("off", "bubblewrap", False),
    ],
)
async def test_no_command_runs_on_this_machine_unasked(mode: str, backend: str, runs: bool, sandbox: Sandbox) -> None:
    config = RunConfig(
        skills=SkillsConfig(inline_shell=mode),
        sandbox=SandboxConfig(backend=backend, allow_local=True),  # type: ignore[arg-type]
    )
    s = session(do="It is !`echo so`.")
    message, note = await expand_typed("/do", s, sandbox, config)
    assert ("It is so." if runs else "It is [not run: echo so].") in message
    told = "1 command of the skill ran" if runs else "1 command of the skill did not run (skills.inline_shell)"
    assert note == f"loaded the skill do; {told}"


@pytest.mark.anyio
async def test_the_files_of_a_skill_are_there_for_its_commands(sandbox: Sandbox) -> None:
    text = skill_format.render("do", "d", "It says !`bash ${CLAUDE_SKILL_DIR}/scripts/x.sh`.")
    skill = skill_format.parse(text, {"scripts/x.sh": b"echo hello\n"})
    s = SkillSession(Library([skill]), origin="foreground", episode="e", model="m")
    message = await expand("/do", s, sandbox, CONFIG)
    assert "It says hello." in message
    assert "The files of the skill are in /app/skills/do: scripts/x.sh\n\n" in message


@pytest.mark.anyio
async def test_windows_line_ends_lose_no_place_and_no_command(sandbox: Sandbox) -> None:
    text = "---\nname: do\ndescription: d\nlicense: MIT\n---\nFix issue $1 now. !`echo $1`\n".replace("\n", "\r\n")
    skills = SkillSession(Library([skill_format.read(text)]), origin="foreground", episode="e", model="m")
    expanded = await expand_typed("/do 7", skills, sandbox, CONFIG)
    assert "---\nFix issue 7 now. 7\n</skill>" in expanded.message
    assert "1 command of the skill ran" in expanded.note
