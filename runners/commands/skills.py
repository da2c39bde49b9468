"""`skills`: the library as a person sees it and keeps it in order."""

import typer

from hermes_lab.runners.commands import skills_change as change
from hermes_lab.runners.commands import skills_effects as effects
from hermes_lab.runners.commands import skills_health as health
from hermes_lab.runners.commands import skills_look as look
from hermes_lab.runners.commands import skills_uplift as uplift


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(no_args_is_help=True, help="Skills: look at them, keep them in order, get them from elsewhere.")
    app.add_typer(group, name="skills")
    group.command(
        "list",
        help="The skills of a library, with how they fared.\n\n"
        "hermes-lab skills list\n\nhermes-lab skills list runs/learner:on-r0-w0 --json",
    )(look.list_)
    group.command(
        "show",
        help="A skill as the agent sees it, and what is known of it.\n\n"
        "hermes-lab skills show house-rules\n\nhermes-lab skills show house-rules --in runs/learner:on-r0-w0",
    )(look.show)
    group.command(
        "search",
        help="Skills by their meaning, best first.\n\nhermes-lab skills search 'totals of a fleet in miles' -n 3",
    )(look.search)
    group.command(
        "history",
        help="The changes of a library, the newest first, with the snapshots to go back to.\n\n"
        "hermes-lab skills history -n 10\n\n"
        "hermes-lab skills history runs/learner:on-r0-w0   (what each border of rounds did to a lane)",
    )(look.history)
    group.command(
        "diff",
        help="What changed from one library to another, file by file. Exits 0, difference or not.\n\n"
        "hermes-lab skills diff runs/learner@3f2a runs/learner@90bc\n\n"
        "hermes-lab skills diff 3f2a   (a past state of your skills, and the present one)",
    )(look.diff)
    group.command(
        "health",
        help="What is wrong with the skills of a library, and how they fare; of a run, how far each skill came in "
        "each arm: eligible, listed, loaded, followed, solved.\n\n"
        "hermes-lab skills health\n\nhermes-lab skills health runs/learner",
    )(health.health)
    group.command(
        "effects",
        help="What the skills of a run did: which hidden rules they tell, how far the right ones came and whom they "
        "helped, what carried over to held-out tasks, what it cost, and whether answers leaked into them.\n\n"
        "hermes-lab skills effects runs/learner\n\nhermes-lab skills effects runs/learner --no-leaks --json",
    )(effects.effects)
    group.command(
        "uplift",
        help="What each skill causes: the lanes' tasks again, with the last library and with that less one skill. The "
        "held-out tasks, where there are some, else those learnt from that the skill was about.\n\n"
        "hermes-lab skills uplift runs/learner --out runs/learner-uplift\n\n"
        "hermes-lab skills uplift runs/learner:on-r0-w0 --skills fleet-ledger --tasks 20 --out runs/fleet-uplift\n\n"
        "hermes-lab skills uplift runs/learner --out runs/learner-uplift --resume   (after Ctrl-C or a crash)\n\n"
        "hermes-lab skills uplift runs/learner-uplift   (the table again)",
    )(uplift.uplift)
    group.command("pin", help="Protect skills: only a person changes them.\n\nhermes-lab skills pin house-rules")(
        change.pin
    )
    group.command("unpin", help="Take the protection away.\n\nhermes-lab skills unpin house-rules")(change.unpin)
    group.command(
        "archive",
        help="Put skills away: they stay on the disk, and prompts no longer name them.\n\n"
        "hermes-lab skills archive house-rules",
    )(change.archive)
    group.command(
        "restore",
        help="Make skills active again, deleted ones too; or the whole library what it was, which can be undone "
        "like any other change.\n\n"
        "hermes-lab skills restore house-rules\n\nhermes-lab skills restore --snapshot 3f2a",
    )(change.restore)
    group.command(
        "curate",
        help="What the curator would do, and why: merge duplicates, put away what is unused or fails. Nothing is "
        "changed without --apply.\n\nhermes-lab skills curate\n\nhermes-lab skills curate --apply",
    )(change.curate)
    group.command(
        "install",
        help="Take skills from a folder or a Git URL (https, ssh, file), all of them or those named, after they are "
        "checked and scanned.\n\n"
        "hermes-lab skills install ./my-skills\n\n"
        "hermes-lab skills install https://example.org/skills.git pdf-forms --ref v2",
    )(change.install)
    group.command(
        "update",
        help="Fetch installed skills again from where they came from.\n\nhermes-lab skills update pdf-forms",
    )(change.update)
