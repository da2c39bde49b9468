"""`sft`: the conversations that `train sft` would select, with the turns that it would train on."""

from collections.abc import Iterator
from typing import Any

from hermes_lab.runners.export.source import Source


def rows(source: Source) -> Iterator[dict[str, Any]]:
    """One row per distinct conversation, ordered by digest. The selection covers the whole run, which is read first."""
    from hermes_lab.training.config import Gate
    from hermes_lab.training.select import select_rows

    selected = select_rows([source.run], Gate(consent=source.consent))
    if source.budget:
        from hermes_lab.training.compress import compress_selection

        selected = compress_selection(selected, source.budget.tokenizer, source.budget.tokens)
        source.compressed = selected.compressed
    source.left_out.update(selected.refused)
    yield from (row.export() for row in selected.rows)
