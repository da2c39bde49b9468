"""The lineage of an adapter: its chain of parents down to the base model, each with its scores."""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hermes_lab.models.cards import Card, read_card
from hermes_lab.training.adapters import list_adapters
from hermes_lab.training.evaluations import Evaluation, read_evaluations
from hermes_lab.training.rounds import stopped


class Ancestor(NamedTuple):
    """One adapter of a lineage."""

    folder: Path
    card: Card
    evaluations: list[Evaluation]


class Lineage(NamedTuple):
    """`chain` starts with the adapter itself. `lost` is a parent missing from the registry, or ""."""

    chain: list[Ancestor]
    lost: str

    def lines(self) -> list[str]:
        """The lineage as text lines."""
        shown = [line for ancestor in self.chain for line in _lines(ancestor)]
        if self.lost:
            return [*shown, f"{self.lost}: not in the registry"]
        card = self.chain[-1].card
        return [*shown, f"{card.base_model}: the base model, sha256 {card.base_digest}"]

    def to_dict(self) -> dict[str, Any]:
        """The lineage for JSON."""
        chain = [
            {
                "folder": str(ancestor.folder),
                **msgspec.structs.asdict(ancestor.card),
                "evaluations": [msgspec.structs.asdict(evaluation) for evaluation in ancestor.evaluations],
            }
            for ancestor in self.chain
        ]
        return {"chain": chain, "lost": self.lost}


def lineage(folder: Path, root: Path) -> Lineage:
    """The lineage of an adapter. Parents are found by digest, below `root` and next to the adapter."""
    known = {card.digest: path for place in (folder.parent, root) for path, card in list_adapters(place)}
    chain: list[Ancestor] = []
    at: Path | None = folder
    while at:
        card = read_card(at)
        chain.append(Ancestor(at, card, read_evaluations(at)))
        at = known.get(card.parent_digest)
        if any(at == ancestor.folder for ancestor in chain):
            break  # edited cards may form a cycle
    last = chain[-1].card
    return Lineage(chain, f"{last.parent} ({last.parent_digest[:12]})" if last.parent else "")


def _lines(ancestor: Ancestor) -> list[str]:
    card = ancestor.card
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in card.metrics.items()) or "none"
    refused = ", ".join(f"{count} {reason}" for reason, count in card.refused.items())
    return [
        f"{card.name}: {card.method} of {card.base_model}, {card.created_at}, {ancestor.folder}",
        f"  adapter   sha256 {card.digest}",
        f"  base      sha256 {card.base_digest}",
        f"  data      sha256 {card.data_digest}: {card.rows} rows, {card.trained_tokens} trained tokens",
        *([f"  refused   {refused}"] if refused else []),
        f"  runs      {', '.join(card.runs)}",
        f"  lock      sha256 {card.lock_digest}",
        f"  last step {metrics} ({card.steps} steps, {card.seconds:.0f} s)",
        *([f"  command   {card.command}"] if card.command else []),
        *(f"  step {each.step:<4} {each.sentence()}" for each in card.heldout),
        *(f"  score     {evaluation.sentence()}" for evaluation in ancestor.evaluations),
        *(
            []
            if ancestor.evaluations
            else ["  score     none; `hermes-lab adapters score` takes them from a run folder"]
        ),
        *([f"  stopped   {why}"] if (why := stopped(ancestor.folder)) else []),
    ]
