"""Renders tasks as Markdown, and updates the gallery of docs/suites.md, which shows one real task of each family.

python -m hermes_lab.tasks.gallery docs/suites.md
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import anyio

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import SuiteConfig
from hermes_lab.returned import ask_verifier
from hermes_lab.rollout import setup_workspace
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Criterion
from hermes_lab.tasks.feedback import write_feedback
from hermes_lab.tasks.play import opener, play
from hermes_lab.tasks.proof import OpenSandbox, Provable, solution
from hermes_lab.tasks.registry import domains, load_suite, served
from hermes_lab.tasks.subtasks import Subtask, subtasks_of
from hermes_lab.tasks.suite import WorldSuite
from hermes_lab.types import Page, Task, Verdict

BEGIN, END = "<!-- gallery: python -m hermes_lab.tasks.gallery docs/suites.md -->", "<!-- end of the gallery -->"
WIDEST = 160
"""Maximum characters per line."""


async def verdicts(suite: Provable, task: Task, open_sandbox: OpenSandbox) -> dict[str, Verdict]:
    """The verdicts on doing nothing, on the naive solution and on the oracle, each in a fresh sandbox."""
    found = {}
    naive, oracle = solution(suite, "naive", task), solution(suite, "oracle", task)
    for name, actions in (("nothing", ()), ("naive", naive), ("oracle", oracle)):
        async with open_sandbox() as sandbox:
            await setup_workspace(task, sandbox)
            await play(actions, task, sandbox, suite)
            verdict = await ask_verifier(suite, task, suite.verify, task, sandbox, "Done.")
            if verdict is not None:
                found[name] = verdict
    return found


def rejection(suite: WorldSuite, task: Task) -> str:
    """The feedback that states the rules, on a submission that only fails to follow them."""
    subtasks = [subtask for subtask in subtasks_of(task.truth) if subtask.site.ruled]
    missed = [[Criterion("rule", 0.0, "it is not right", ruled=True)]] * len(subtasks)
    attempt = suite.spec.discovery + 1
    return write_feedback(subtasks, missed, suite.spec, attempt, Draws(suite.name, task.id, "feedback", attempt))


def card(suite: object, task: Task, judged: Mapping[str, Verdict], *, files: int, lines: int) -> str:
    """A task in Markdown, with up to `files` of its files and `lines` lines of each."""
    subtasks = subtasks_of(task.truth)
    parts = [quoted(task.prompt), "Workspace:", _tree(task)]
    parts += [_block(text, lines, path) for path, text in _readable(task)[:files]]
    parts += [_pages(task.pages, lines)] if task.pages else []
    parts += ["Hidden rule (a spoiler): " + "; ".join(map(_rule, subtasks)) + "."] if subtasks else []
    if isinstance(suite, WorldSuite) and task.triggers:
        parts += ["A rejection says:", quoted(rejection(suite, task))]
    parts += [_table(judged)] if judged else []
    return "\n\n".join(parts)


def example(family: str) -> tuple[WorldSuite, Task]:
    """The example task of a family: the first task of world 0 in which a rule triggers."""
    suite = cast(WorldSuite, load_suite(SuiteConfig(name=family)))
    tasks = suite.load(split="train", count=50, seed=0, world=0)
    return suite, next(task for task in tasks if task.triggers)


async def entry(name: str, sandbox: SandboxConfig) -> str:
    """A family's section of the gallery."""
    suite, task = example(name)
    family = suite.families[0]
    judged = await verdicts(suite, task, opener(sandbox, suite))
    return f"### `{name}`\n{family.summary}\n\n{card(suite, task, judged, files=2, lines=8)}"


async def gallery(sandbox: SandboxConfig) -> dict[str, str]:
    """The sections of all families, by name, in the order of their domains; those with a server come last."""
    names = [*(name for families in domains().values() for name in families), *served()]
    return {name: await entry(name, sandbox) for name in names}


def replaced(page: str, parts: Sequence[str]) -> str:
    """The page with its gallery replaced by `parts`. Raises `ValueError` for a page without the markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN} or {END}")
    return "\n\n".join([before + begin, *parts, end + after])


def main(path: Path) -> None:
    """Updates the gallery in a page."""
    parts = anyio.run(gallery, SandboxConfig())
    path.write_text(replaced(path.read_text(), list(parts.values())))


def quoted(text: str) -> str:
    """A text as a quotation in Markdown."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _tree(task: Task) -> str:
    rows = [f"{path}  ({len(text.splitlines())} lines)" for path, text in sorted(task.files.items())]
    rows += [f"$ {_clipped(line)}" for command in task.setup for line in command.splitlines()[:4]]
    return _fenced("\n".join(rows)) if rows else "(empty)"


def _readable(task: Task) -> list[tuple[str, str]]:
    """The files of a task, with programs last."""
    return sorted(task.files.items(), key=lambda each: each[1].startswith("#!"))


def _block(text: str, lines: int, path: str) -> str:
    rows = text.splitlines()
    shown = [_clipped(row) for row in rows[:lines]]
    more = [f"... {len(rows) - lines} more lines"] if len(rows) > lines else []
    return f"`{path}`:\n\n{_fenced(chr(10).join([*shown, *more]))}"


def _pages(pages: Sequence[Page], lines: int) -> str:
    rows = [f"{page.url}  {page.title}" for page in pages[:12]]
    more = [f"... {len(pages) - 12} more pages"] if len(pages) > 12 else []
    return f"Pages:\n\n{_fenced(chr(10).join([*rows, *more]))}\n\n{_block(pages[0].text, lines, pages[0].url)}"


def _rule(subtask: Subtask) -> str:
    site = subtask.site
    if not site.ruled:
        return f"none holds for {site.called}; the naive solution is right"
    return f"for {site.called}, {site.drawn.paraphrases[0]}. To follow it: {site.drawn.instruction}"


def _table(judged: Mapping[str, Verdict]) -> str:
    names = list(dict.fromkeys(name for verdict in judged.values() for name in verdict.criteria))
    rows = [
        "| criterion | " + " | ".join(judged) + " | reason if it fails |",
        "|---" * (len(judged) + 2) + "|",
    ]
    for name in names:
        scores = " | ".join(f"{verdict.criteria.get(name, 0.0):g}" for verdict in judged.values())
        reasons = [verdict.reasons[name] for verdict in judged.values() if verdict.reasons.get(name)]
        rows.append(f"| {name} | {scores} | {(reasons or [''])[-1].replace('|', chr(92) + '|')} |")
    rows.append("| **score** | " + " | ".join(f"**{verdict.score:g}**" for verdict in judged.values()) + " | |")
    return "\n".join(rows)


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}text\n{text}\n{fence}"


def _clipped(line: str) -> str:
    return line if len(line) <= WIDEST else f"{line[: WIDEST - 3]}..."


if __name__ == "__main__":
    main(Path(sys.argv[1]))
