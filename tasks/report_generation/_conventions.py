"""What the families of this domain have in common: scripts that write reports."""

from collections.abc import Mapping
from string import Template
from typing import Any

from hermes_lab.tasks.conventions import Convention, slots_of
from hermes_lab.tasks.family import Action, Rule, shell


def write_script(
    template: Template, lines: Mapping[str, str], conventions: Mapping[str, Convention[Any, Any]], rule: Rule | None
) -> Action:
    """The script of someone who believes in `rule`; `lines` are those of someone who knows of none."""
    filled = template.substitute({**lines, **slots_of(conventions, rule)}).strip().split("\n")
    # A line that a custom may add leaves its indent behind where none does.
    body = "\n".join(line for line in filled if not line or line.strip())
    return shell(f"python3 - <<'EOF'\n{body}\nEOF", "I write it with a script that reads the data.")


def words(text: str) -> tuple[str, ...]:
    """The words, separated by commas."""
    return tuple(word.strip() for word in text.split(","))
