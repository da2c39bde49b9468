"""Cuts what is sent to Discord into messages: texts, and files to attach."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import anyio

from hermes_lab.gateway.platform import Outbound
from hermes_lab.gateway.split import Limit, split

_MOST_FILES = 10
_MOST_BYTES = 10 << 20


class Part(NamedTuple):
    """One message of Discord's."""

    text: str
    files: Sequence[tuple[str, bytes]] = ()


async def parts(message: Outbound, limit: Limit) -> list[Part]:
    """The messages that it takes: one, unless there are many files, or the text has been added to."""
    files, notes = [], []
    for path in message.files:
        content = await _content(path)
        if isinstance(content, bytes):
            files.append((path.name, content))
        else:
            notes.append(content)
    text = "\n".join(filter(None, (message.text if message.text.strip() else "", *notes)))
    texts = [piece.sent for piece in split(text, limit) if not piece.blank]
    groups = _groups(files)
    found = [Part(each) for each in texts[:-1]]
    if texts or groups:
        found.append(Part(texts[-1] if texts else "", groups[0] if groups else ()))
    return found + [Part("", group) for group in groups[1:]]


def _groups(files: Sequence[tuple[str, bytes]]) -> list[list[tuple[str, bytes]]]:
    """The files that go into one message each."""
    groups: list[list[tuple[str, bytes]]] = []
    room = 0
    for name, content in files:
        if not groups or len(groups[-1]) == _MOST_FILES or len(content) > room:
            groups.append([])
            room = _MOST_BYTES
        groups[-1].append((name, content))
        room -= len(content)
    return groups


async def _content(path: Path) -> bytes | str:
    """What a file holds, or a line that says why it is not sent."""
    try:
        if (await anyio.Path(path).stat()).st_size > _MOST_BYTES:
            return f"({path.name} is not attached: Discord takes files of up to {_MOST_BYTES >> 20} MB from a bot)"
        return await anyio.Path(path).read_bytes()
    except OSError as error:
        return f"({path.name} was to be attached: {error.strerror})"
