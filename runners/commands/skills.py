"""`skills`: inspects and manages skill libraries."""

import typer

from hermes_lab.runners.commands import skills_change as change
from hermes_lab.runners.commands import skills_effects as effects
from hermes_lab.runners.commands import skills_health as health
from hermes_lab.runners.commands import skills_install as installing
from hermes_lab.runners.commands import skills_look as look
from hermes_lab.runners.commands import skills_promote as promoting
from hermes_lab.runners.commands import skills_uplift as uplift


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(no_args_is_help=True, help="Skill libraries: inspect, evaluate, manage and install skills.")
    app.add_typer(group, name="skills")
    group.command(
        "list",
        help="List the skills of a library with their use and success.\n\n"
        "hermes-lab skills list\n\nhermes-lab skills list runs/learner:on-r0-w0 --json",
    )(look.list_)
    group.command(
        "show",
        help="Show a skill as the agent sees it, with its metadata.\n\n"
        "hermes-lab skills show house-rules\n\nhermes-lab skills show house-rules --in runs/learner:on-r0-w0",
    )(look.show)
    group.command(
        "search",
        help="Search skills by meaning: yours, and those that skills.sources offer. Only --refresh uses the "
        "network.\n\n"
        "hermes-lab skills search 'totals of a fleet in miles' -n 3\n\n"
        "hermes-lab skills search 'fill in a PDF form' --refresh",
    )(look.search)
    group.command(
        "history",
        help="List the changes of a library, newest first, with the snapshots to restore.\n\n"
        "hermes-lab skills history -n 10\n\n"
        "hermes-lab skills history runs/learner:on-r0-w0   (how each round changed a lane's library)",
    )(look.history)
    group.command(
        "diff",
        help="Show the differences between two libraries, file by file. Exits 0 even if they differ.\n\n"
        "hermes-lab skills diff runs/learner@3f2a runs/learner@90bc\n\n"
        "hermes-lab skills diff 3f2a   (an earlier snapshot of your skills against the current one)",
    )(look.diff)
    group.command(
        "health",
        help="Report problems with the skills of a library and their success. For a run, also the funnel of each skill "
        "per arm: eligible, listed, loaded, followed, solved.\n\n"
        "hermes-lab skills health\n\nhermes-lab skills health runs/learner",
    )(health.health)
    group.command(
        "effects",
        help="Measure what a run's skills did. Shows the hidden rules that they state, how often the right ones were "
        "used and helped, transfer to held-out tasks, cost, and leaked answers.\n\n"
        "hermes-lab skills effects runs/learner\n\nhermes-lab skills effects runs/learner --no-leaks --json",
    )(effects.effects)
    group.command(
        "uplift",
        help="Measure the effect of each skill by leaving it out. Reruns tasks with the final library, and without "
        "each skill (leave-one-out ablation): the held-out tasks if there are any, else the training tasks that the "
        "skill was about.\n\n"
        "hermes-lab skills uplift runs/learner --out runs/learner-uplift\n\n"
        "hermes-lab skills uplift runs/learner:on-r0-w0 --skills fleet-ledger --tasks 20 --out runs/fleet-uplift\n\n"
        "hermes-lab skills uplift runs/learner --out runs/learner-uplift --resume   (after Ctrl-C or a crash)\n\n"
        "hermes-lab skills uplift runs/learner-uplift   (print the table again)",
    )(uplift.uplift)
    group.command("pin", help="Pin skills so that the agent cannot change them.\n\nhermes-lab skills pin house-rules")(
        change.pin
    )
    group.command("unpin", help="Unpin skills.\n\nhermes-lab skills unpin house-rules")(change.unpin)
    group.command(
        "archive",
        help="Archive skills: they stay on disk but are no longer listed in prompts.\n\n"
        "hermes-lab skills archive house-rules",
    )(change.archive)
    group.command(
        "restore",
        help="Restore archived or deleted skills, or the whole library to an earlier snapshot. A restore can be undone "
        "like any other change.\n\n"
        "hermes-lab skills restore house-rules\n\nhermes-lab skills restore --snapshot 3f2a",
    )(change.restore)
    group.command(
        "curate",
        help="Show how the curator would tidy a library. It merges duplicates, and archives skills that are unused or "
        "fail. --apply carries it out.\n\nhermes-lab skills curate\n\nhermes-lab skills curate --apply",
    )(change.curate)
    group.command(
        "promote",
        help="Activate proposed skills (skills.proposals) if an uplift run shows no loss. A skill that was not "
        "measured, has changed since, or solved fewer tasks stays a proposal. Without options, list the proposals.\n\n"
        "hermes-lab skills promote\n\nhermes-lab skills promote -c tasks.yaml --out runs/promote   (measure first)\n\n"
        "hermes-lab skills promote --uplift runs/uplift   (measured before)",
    )(promoting.promote)
    group.command(
        "inspect",
        help="Look at the skills of a source, or read one, with what the scan finds. Nothing is installed.\n\n"
        "hermes-lab skills inspect anthropics/skills\n\nhermes-lab skills inspect anthropics/skills/pdf",
    )(installing.inspect)
    group.command(
        "install",
        help="Install skills from a folder or a Git repository: all of them, or those named. They are checked and "
        "scanned first; skills that fail are skipped and listed.\n\n"
        "hermes-lab skills install ./my-skills\n\n"
        "hermes-lab skills install anthropics/skills/pdf\n\n"
        "hermes-lab skills install https://github.com/openai/skills/tree/main/skills/.experimental/linear\n\n"
        "hermes-lab skills install https://example.org/skills.git pdf-forms --ref v2",
    )(installing.install)
    group.command(
        "update",
        help="Update installed skills from their source.\n\nhermes-lab skills update pdf-forms",
    )(installing.update)
    group.command(
        "sync",
        help="Add the skills of this package to your own. Skills that you have not changed are updated. An interactive "
        "chat does this at its first start (skills.bundled).\n\n"
        "hermes-lab skills sync\n\nhermes-lab skills sync debugging --replace   (as it comes with the package)",
    )(installing.sync)
