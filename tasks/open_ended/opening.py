"""The story `opening`: a new site opens: a plugin, log rotation, a name to trace and sensors."""

from hermes_lab.tasks.stories import Story

STORY = Story(
    name="opening",
    summary="a new site opens: a plugin, log rotation, a name to trace and sensors",
    families=("plugins", "rotation", "aliases", "sensors"),
    openings={
        "train": (
            "A new site opens next week. Of the {count} preparations below, any {needed} have to work.",
            "We are setting up a new site: {count} preparations, of which we need at least {needed}, no matter which.",
            "Getting the new site ready takes {count} more steps; do at least {needed} of them right.",
        ),
        "validation": (
            "The branch starts on Monday. {count} errands are open, and at least {needed} must be run well.",
            "{count} errands for the branch that starts on Monday. We open with any {needed} of them done.",
        ),
        "heldout": (
            "We take over another location on the first. This is the list, {count} long; any {needed} will do.",
            "The takeover of the other location takes {count} things, and no fewer than {needed} have to be flawless.",
            "For the takeover on the first, please see to the {count} points here, {needed} or more flawlessly.",
        ),
    },
)
