"""MEMORY.md and USER.md: the agent's own notes, and what it knows of the person."""


class NotesSession:
    """What the `memory` tool acts on."""
