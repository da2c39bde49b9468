"""The story `incident`: the morning after an incident: logs, a service, a flaky test and restated figures."""

from hermes_lab.tasks.stories import Story

STORY = Story(
    name="incident",
    summary="the morning after an incident: logs, a service, a flaky test and restated figures",
    families=("event_logs", "services", "test_order", "restatement"),
    openings={
        "train": (
            "There was an incident last night. {count} things are left to clear up, at least {needed} of them by noon.",
            "The night shift hands over an incident with {count} open actions. Get at least {needed} of them done.",
            "Follow-up of the outage, {count} actions. The review passes when at least {needed} of them are right.",
        ),
        "validation": (
            "After the breakdown: {count} chores. It is settled with at least {needed} of them done.",
            "The breakdown of yesterday left {count} chores behind. I need at least {needed} done cleanly, whichever.",
        ),
        "heldout": (
            "The postmortem found {count} tasks. It can be closed when at least {needed} are solved.",
            "Please work through the {count} tasks of the postmortem; any {needed} solved ones close it.",
            "To close the postmortem we need {needed} or more of these {count} solved.",
        ),
    },
)
