"""Feedback on rejected submissions, in the voice of a site's owner. It may state the rule, but never part of the
answer."""

from collections.abc import Sequence

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import Criterion
from hermes_lab.tasks.subtasks import Subtask
from hermes_lab.tasks.worlds import WorldSpec

TOLD = {
    "train": (
        "Rejected. For {place}, {clause}: {recipe}.",
        "This is not how it works at {place}. There, {clause}. Please {recipe}.",
        "Sent back by {place}: {clause}. Please {recipe}.",
        "Not accepted: for {place}, {clause}. Next time, {recipe}.",
    ),
    "validation": (
        "{place} turned this down: {clause}. So {recipe}.",
        "Wrong for {place}, where {clause}. You need to {recipe}.",
    ),
    "heldout": (
        "We can't use this, because {place} does it differently: {clause}; {recipe}.",
        "Returned: for {place}, {clause}. To fix it, {recipe}.",
        "{place} complained: {clause}. They ask you to {recipe}.",
    ),
}
PLAIN = "{place} has no special rule, so the standard way is right"
"""Added to the reasons if no rule holds. The verifier cannot tell whether a wrong skill or an ordinary mistake caused
the rejection."""


def write_feedback(
    subtasks: Sequence[Subtask], judged: Sequence[Sequence[Criterion]], spec: WorldSpec, attempt: int, draws: Draws
) -> str:
    """One line per rejected subtask."""
    lines = []
    for subtask, criteria in zip(subtasks, judged, strict=True):
        failed = [each for each in criteria if each.score < 1.0]
        if failed:
            lines.append(_line(subtask, failed, spec, attempt, draws))
    return "\n".join(lines)


def _line(subtask: Subtask, failed: Sequence[Criterion], spec: WorldSpec, attempt: int, draws: Draws) -> str:
    visible = [each.reason for each in failed if not each.ruled]
    site, rule = subtask.site, subtask.site.rule
    if visible:
        return f"Rejected for {site.called}: {'; '.join(visible)}."
    reasons = "; ".join(each.reason for each in failed)
    if spec.salience == "symptom" or attempt <= spec.discovery:
        return f"Rejected for {site.called}: {reasons}."
    if rule is None:
        return f"Rejected: {reasons}; {PLAIN.format(place=site.called)}."
    paraphrase = draws.choice(rule.paraphrases)
    if spec.salience == "worded":
        return f"Rejected: for {site.called}, {paraphrase}."
    line = draws.choice(TOLD[site.entity.split]).format(place=site.called, clause=paraphrase, recipe=rule.instruction)
    return line[0].upper() + line[1:]
