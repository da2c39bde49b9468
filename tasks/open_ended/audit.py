"""The story `audit`: the auditors come: tables, a register, a backup and a workbook."""

from hermes_lab.tasks.stories import Story

STORY = Story(
    name="audit",
    summary="the auditors come: tables, a register, a backup and a workbook",
    families=("joins", "registers", "backups", "workbook"),
    openings={
        "train": (
            "The auditors come tomorrow and ask for {count} things. At least {needed} in order will satisfy them.",
            "Audit preparation, {count} requests. They accept it if any {needed} are in order.",
            "For the audit we still owe {count} items, at least {needed} of them in perfect order.",
        ),
        "validation": (
            "An inspection is announced: {count} demands, and at least {needed} have to be met.",
            "The inspector wrote {count} demands down. Meeting any {needed} is a pass.",
        ),
        "heldout": (
            "The yearly review has {count} requirements; we pass with {needed} or more.",
            "Get us through the yearly review, please: {count} requirements, at least {needed} to be fulfilled.",
            "{count} requirements stand between us and a clean review. Fulfil {needed} at least.",
        ),
    },
)
