"""Functions as they are in any house, each with a bug, and with a convention that a house may have there."""

from collections.abc import Mapping

from hermes_lab.tasks.code_debugging._topics import amounts, lists, texts, times
from hermes_lab.tasks.code_debugging._topics.topic import Topic

TOPICS: Mapping[str, Topic] = {**amounts.TOPICS, **lists.TOPICS, **texts.TOPICS, **times.TOPICS}
UNSEEN = ("free", "draft", "group", "gap")
"""Topics of held-out worlds alone."""
SEEN = tuple(name for name in TOPICS if name not in UNSEEN)
