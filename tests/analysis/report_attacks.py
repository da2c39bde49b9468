"""Texts that would break a page, or do something in it, if they were anything but text."""

from synthetic_episodes import make_episode

from hermes_lab.types import Episode, Message, SkillUse, SkillWrite, ToolCall, ToolResult, Trajectory, Usage, Verdict

ATTACKS = (
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    "--><svg onload=window.hacked=3><!--",
    '"><a href="javascript:window.hacked=4">click</a>',
    "\x1b[2J\x1b[31mred\x07",
    "safe\u202egnp.exe\u2066\u200b",
    "{{body}} {{chunks}} ${1+1} `window.hacked=5`",
    "</style><style>body { display: none }</style>",
    "</textarea></title><iframe src='https://example.com/leak'></iframe>",
    "\u2028\u2029\ud83d\ude00 \x00 ]]> &lt;b&gt;".encode("utf-16", "surrogatepass").decode("utf-16"),
)


def attacked() -> list[Episode]:
    """Every text that a model, a tool or a task writes is an attack."""
    return [_attacked(number, attack, arm) for number, attack in enumerate(ATTACKS) for arm in ("off", "on")]


def _attacked(number: int, attack: str, arm: str) -> Episode:
    messages = (
        Message("system", attack),
        Message("user", attack),
        Message("assistant", attack, (ToolCall("c", attack, {attack: attack}, attack),), reasoning=attack),
        Message("tool", attack, results=(ToolResult("c", attack, attack, ok=False),)),
    )
    write = SkillWrite("create", attack, attack, "review", attack, attack, "s")
    return make_episode(
        arm == "off",
        task=number,
        lane=f"{arm}-r0-w0",
        task_id=f"{number} {attack}".replace("|", ""),
        trajectory=Trajectory(messages, (), "native", "answered", usage=Usage(10, 5)),
        skills=SkillUse(attack, (attack,), (attack,), (write,)),
        verdicts=(Verdict(0.5, arm == "off", {attack: 0.5}, attack, {attack: attack}),),
    )
