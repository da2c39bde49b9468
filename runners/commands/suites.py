"""`tasks`: lists, shows, samples and checks task suites."""

import typer

from hermes_lab.runners.commands import suites_check as check
from hermes_lab.runners.commands import suites_look as look


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="Task suites: list, inspect, sample and check them.", no_args_is_help=True)
    app.add_typer(group, name="tasks")
    group.command(
        "list",
        help="List domains and their families, third-party suites and installed suites.\n\n"
        "hermes-lab tasks list\n\nhermes-lab tasks list --json",
    )(look.list_)
    group.command(
        "show",
        help="Show one task in full: prompt, workspace, pages, and the hidden rule.\n\n"
        "hermes-lab tasks show ledger   (the first that triggers a rule)\n\n"
        "hermes-lab tasks show ledger --task 3 --split heldout --play   (with the verdicts on three policies)\n\n"
        "hermes-lab tasks show data_analysis -c suite.options.pieces=2",
    )(look.show)
    group.command(
        "sample",
        help="Sample random tasks. Prints a table, writes JSON Lines, or creates one task's workspace to try by "
        "hand.\n\n"
        "hermes-lab tasks sample ledger -n 10 --seed 7\n\n"
        "hermes-lab tasks sample ledger -n 100 -o ledger.jsonl\n\n"
        "hermes-lab tasks sample ledger --world 0 --workspace try-it",
    )(look.sample)
    group.command(
        "rules",
        help="Write the hidden rules of a world as skills, to use as skills.library of `run`.\n\n"
        "hermes-lab tasks rules ledger --world 0 -o oracle-skills",
    )(look.rules)
    group.command(
        "check",
        help="Validate a suite, a JSONL file or a folder of Harbor tasks. For a suite: the oracle scores 1, a no-op 0, "
        "the naive policy fails exactly where a rule triggers, wrong beliefs fail, tampering scores 0, no task reveals "
        "its rule, splits are disjoint. For a JSONL file: whether its rows are valid tasks. For a folder of Harbor "
        "tasks: what cannot run here, and whether doing nothing scores 0 and each task's own solution 1. Exits 1 and "
        "prints a line per failure.\n\n"
        "hermes-lab tasks check ledger -n 200\n\n"
        "hermes-lab tasks check ledger -n 50 --split heldout -c suite.options.pieces=2\n\n"
        "hermes-lab tasks check mine.parcels:Parcels   (a class in mine/parcels.py)\n\n"
        "hermes-lab tasks check tasks.jsonl\n\n"
        "hermes-lab tasks check ./terminal-bench -n 40\n\n"
        "hermes-lab tasks check --runs runs/learner   (the rubric for a run's episodes)",
    )(check.check)
