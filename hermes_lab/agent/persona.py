"""What the system prompt says about the person, and how the agent is to speak."""

from datetime import datetime
from zoneinfo import ZoneInfo

from hermes_lab.config.home import HomeConfig

_BEGIN, _END = "<persona>\n", "\n</persona>"


def persona(config: HomeConfig, began: datetime) -> str:
    """The block for the system prompt of a session that began at `began` (with a time zone): the person's name, time
    zone, date and preferences, and the personality's text. "" if nothing of it is configured."""
    user, parts = config.user, []
    if name := " ".join(user.name.split()):
        parts.append(f"You work for {name}.")
    if user.timezone:
        day = began.astimezone(ZoneInfo(user.timezone))
        parts.append(f"Time zone: {user.timezone}. This session began on {day:%A, %Y-%m-%d} (local date).")
    if user.preferences:
        parts.append("Preferences:\n" + "\n".join(f"- {key}: {text}" for key, text in user.preferences.items()))
    if text := config.known_personalities[config.personality].strip():
        parts.append(f"Personality:\n{text}")
    return _BEGIN + "\n".join(parts) + _END if parts else ""


def persona_in(prompt: str) -> str:
    """The block in a system prompt, where `system_prompt` puts it; "" if there is none."""
    _, _, rest = prompt.partition("\n\n")
    return rest[: rest.index(_END) + len(_END)] if rest.startswith(_BEGIN) and _END in rest else ""
