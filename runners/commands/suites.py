"""`tasks`: what suites there are, what their tasks look like, and whether they prove themselves."""

import typer

from hermes_lab.runners.commands import suites_check as check
from hermes_lab.runners.commands import suites_look as look


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="Task suites: look at them, try their tasks, prove them.", no_args_is_help=True)
    app.add_typer(group, name="tasks")
    group.command(
        "list",
        help="Domains with their families, adapters of third-party suites, installed suites.\n\n"
        "hermes-lab tasks list\n\nhermes-lab tasks list --json",
    )(look.list_)
    group.command(
        "show",
        help="One task in full: prompt, workspace, pages, and its hidden rule, which is a spoiler.\n\n"
        "hermes-lab tasks show ledger   (the first that triggers a rule)\n\n"
        "hermes-lab tasks show ledger --task 3 --split heldout --play   (and what the verifier says)\n\n"
        "hermes-lab tasks show data_analysis -c suite.options.pieces=2",
    )(look.show)
    group.command(
        "sample",
        help="A random draw of tasks: as a table, as JSON lines, or one workspace to try by hand.\n\n"
        "hermes-lab tasks sample ledger -n 10 --seed 7\n\n"
        "hermes-lab tasks sample ledger -n 100 -o ledger.jsonl\n\n"
        "hermes-lab tasks sample ledger --world 0 --workspace try-it",
    )(look.sample)
    group.command(
        "rules",
        help="Write the hidden rules of a world as skills, for skills.library of `run`.\n\n"
        "hermes-lab tasks rules ledger --world 0 -o oracle-skills",
    )(look.rules)
    group.command(
        "check",
        help="Prove a suite: the oracle scores 1, a no-op 0, the obvious way fails just where a rule triggers, a wrong "
        "belief fails, tampering scores 0, no task tells its rule, splits share nothing. Of a JSONL file: whether its "
        "rows are tasks. Exits 2 with a line for each failure.\n\n"
        "hermes-lab tasks check ledger -n 200\n\n"
        "hermes-lab tasks check ledger -n 50 --split heldout -c suite.options.pieces=2\n\n"
        "hermes-lab tasks check tasks.jsonl\n\n"
        "hermes-lab tasks check --runs runs/learner   (the rubric of what agents did)",
    )(check.check)
