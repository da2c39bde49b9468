"""The story `release`: a release tonight: a bug, a setting, a notice to look up and a report."""

from hermes_lab.tasks.stories import Story

STORY = Story(
    name="release",
    summary="a release tonight: a bug, a setting, a notice to look up and a report",
    families=("repair", "dropins", "notices", "house_template"),
    openings={
        "train": (
            "The release goes out tonight and {count} things are still open. We ship when any {needed} are right.",
            "Release night. Here are the {count} last items; at least {needed} have to be done properly.",
            "Before we can tag the release somebody must close these {count} points, or at least {needed} of them.",
        ),
        "validation": (
            "Version day: {count} loose ends. It goes live with {needed} or more of them tied up.",
            "Nobody leaves before the new version is out. {count} points are left, at least {needed} must hold.",
        ),
        "heldout": (
            "The launch is this evening. Of the {count} pieces below, the customer wants at least {needed} in order.",
            "We promised the customer a launch today. Finish the {count} pieces below; any {needed} will do.",
            "Launch checklist, {count} entries. It passes with at least {needed} of them right.",
        ),
    },
)
