"""How the turns of a session are shown."""

from hermes_lab.chat.conversation import Conversation
from hermes_lab.models.hermes_format import parse_reply
from hermes_lab.models.reasoning import split_reasoning
from hermes_lab.text.clip import clip

_SHOWN_CHARS = 1_000


def last_turns(conversation: Conversation, turns: int = 3, *, whole: bool = False) -> str:
    """The last turns as text: what the user said, the tools that were called, and the answers; "" without turns. Long
    texts are clipped unless they shall be `whole`."""
    shown = str.strip if whole else _clipped
    begins = conversation.turns()[-turns:]
    messages, lines = conversation.session.messages, []
    begun = set(conversation.turns())
    for index in range(begins[0] if begins else len(messages), len(messages)):
        message = messages[index]
        if index in begun:
            lines.append(f"> {shown(conversation.said(index))}")
        elif message.role == "assistant":
            text = split_reasoning(parse_reply(message.content).content).answer.strip()
            if text:
                lines.append(shown(text))
            if message.tool_calls:
                lines.append(f"  [{', '.join(call.name for call in message.tool_calls)}]")
    return "\n".join(lines)


def _clipped(text: str) -> str:
    return clip(text.strip(), _SHOWN_CHARS).text
