"""What the families of this domain have in common: scripts, skills that show them, and how somebody looks at files."""

from collections.abc import Mapping
from typing import Any

from hermes_lab.tasks.family import Action, Rule, TaskInstance, sentence, shell
from hermes_lab.tasks.rules import Convention, slots_of


def write_script(template: str, slots: Mapping[str, str]) -> str:
    """A command that pipes the script to python. A line `<slot>` becomes the lines of the slot, or none; inside a line
    it becomes the slot's text."""
    lines: list[str] = []
    for line in template.strip().splitlines():
        bare = line.strip()
        if bare[:1] == "<" and bare[-1:] == ">":
            indent = line[: line.index("<")]
            lines += [indent + each for each in slots[bare[1:-1]].splitlines()]
        else:
            for slot, text in slots.items():
                line = line.replace(f"<{slot}>", text)
            lines.append(line)
    return "python3 - <<'EOF'\n" + "\n".join(lines) + "\nEOF"


def told_with_code(conventions: Mapping[str, Convention[Any, Any]], rule: Rule) -> str:
    """The body of a skill: clause, recipe, and the lines of a script that do it."""
    paraphrase, instruction = sentence(rule.paraphrases[0]), sentence(rule.instruction)
    code = "\n".join(slots_of(conventions, rule).values())
    return f"{paraphrase}.\n\n{instruction}. In Python:\n\n```python\n{code}\n```"


def look_at(instance: TaskInstance) -> tuple[Action, ...]:
    """How somebody looks at files: the list of them, and the top of each."""
    files = " ".join(instance.inputs)
    return (
        shell(f"ls -l {files}", "First a look at what is there."),
        shell(f"head -n 8 {files}", "And at the top of each file."),
    )


def words(text: str) -> tuple[str, ...]:
    """The words of a line."""
    return tuple(text.split())
