"""The filings of a board, and the expected figures."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hermes_lab.tasks.data_family import Words
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.report_generation.restatement.rules import WITHDRAWN, Custom, Entry, Figure, SiteConfig

Row = tuple[str, ...]
LINES, QUARTERS, REASONS = 4, 6, 4


def draw_site(draws: Draws, words: Words) -> SiteConfig:
    """The lines and words of a board."""
    return SiteConfig(
        **draws.choice(words.labels),
        lines=tuple(draws.sample(words.lines, LINES)),
        reasons=tuple(draws.sample(words.reasons, REASONS)),
        heading=draws.choice(words.headings),
        restated=draws.choice(words.restated),
        currency=draws.choice(words.currencies),
        withdrawn=tuple(words.withdrawn),
    )


def quarters_from(year: int, number: int) -> tuple[str, ...]:
    """Six consecutive quarters, starting with the given one."""
    months = [4 * year + number - 1 + n for n in range(QUARTERS)]
    return tuple(f"{each // 4}-Q{each % 4 + 1}" for each in months)


def draw_figures(site_config: SiteConfig, quarters: Sequence[str], draws: Draws) -> list[Figure]:
    """All figures, quarter by quarter.

    They include restatements by a few units, by 1 to 2, by 2 to 5 and by more percent; for every reason; one to four
    quarters late; double ones, up and down; and figures withdrawn by a dash, at once or later. So every rule changes
    the files, and each in a different way.
    """
    early = draws.shuffled([(quarter, line) for quarter in (0, 1) for line in range(LINES)])
    later = [(quarter, line) for quarter in (2, 3) for line in range(LINES)]
    late, others = early[:3], draws.shuffled(early[3:] + later)
    firsts = {(q, line): draws.integer(2000, 9000) for q in range(QUARTERS) for line in range(LINES)}
    restated = _small(others[:4], firsts, site_config, draws)
    restated |= _late([*late, others[4]], firsts, site_config, draws)
    restated |= _twice(others[5:7], firsts, site_config, draws)
    restated |= _withdrawn(others[7:9], firsts, site_config, draws)
    return [
        Figure(site_config.lines[line], quarters[q], (Entry(first, "", 0), *restated.get((q, line), ())))
        for (q, line), first in firsts.items()
    ]


Key = tuple[int, int]
Entries = dict[Key, tuple[Entry, ...]]


def _age(key: Key, draws: Draws) -> int:
    return draws.integer(1, QUARTERS - 1 - key[0])


def _small(keys: Sequence[Key], firsts: Mapping[Key, int], site_config: SiteConfig, draws: Draws) -> Entries:
    """One restatement each, by 1 to 4, 5 to 9, 10 to 14 and 15 to 19, at most three quarters late."""
    reasons = draws.shuffled(site_config.reasons)
    found: Entries = {}
    for number, key in enumerate(keys):
        off = draws.choice((-1, 1)) * draws.integer(max(1, 5 * number), 5 * number + 4)
        found[key] = (Entry(firsts[key] + off, reasons[number], min(3, _age(key, draws))),)
    return found


def _late(keys: Sequence[Key], firsts: Mapping[Key, int], site_config: SiteConfig, draws: Draws) -> Entries:
    """One restatement each, by 1 to 2, 2 to 5 and more percent; the first three are 2, 3 and 4 quarters late."""
    reasons = draws.shuffled(site_config.reasons)
    percents = draws.shuffled((1.5, 3.5, draws.integer(6, 12), draws.integer(13, 20)))
    found: Entries = {}
    for number, key in enumerate(keys):
        off = draws.choice((-1, 1)) * int(firsts[key] * percents[number] / 100)
        age = number + 2 if number < 3 else _age(key, draws)
        found[key] = (Entry(firsts[key] + off, reasons[number], age),)
    return found


def _twice(keys: Sequence[Key], firsts: Mapping[Key, int], site_config: SiteConfig, draws: Draws) -> Entries:
    """Two restatements each, the second halfway back; one figure goes up first, the other down."""
    found: Entries = {}
    for key, sign in zip(keys, (1, -1), strict=True):
        off = sign * 2 * draws.integer(100, 300)
        one, two = draws.sample(site_config.reasons, 2)
        found[key] = (Entry(firsts[key] + off, one, 1), Entry(firsts[key] + off // 2, two, 2))
    return found


def _withdrawn(keys: Sequence[Key], firsts: Mapping[Key, int], site_config: SiteConfig, draws: Draws) -> Entries:
    """One figure with a dash in the next filing, and one with a restatement, then a dash."""
    at_once, later = keys
    first, second, third = draws.sample(site_config.reasons, 3)
    off = draws.choice((-1, 1)) * draws.integer(100, 400)
    return {
        at_once: (Entry(None, first, 1),),
        later: (Entry(firsts[later] + off, second, 1), Entry(None, third, 2)),
    }


def render_filings(
    site_config: SiteConfig, figures: Sequence[Figure], quarters: Sequence[str], folder: str
) -> dict[str, str]:
    """One CSV file per quarter: its own figures, then restated ones. No cell needs quoting."""
    head = f"{site_config.line},{site_config.quarter},amount,{site_config.reason}\n".lower()
    rows_of = {quarter: number for number, quarter in enumerate(quarters)}
    rows: list[list[str]] = [[] for _ in quarters]
    for figure in figures:
        rows[rows_of[figure.quarter]].append(f"{figure.line},{figure.quarter},{figure.first},\n")
    for figure in figures:
        for amount, reason, age in figure.entries[1:]:
            said = WITHDRAWN if amount is None else amount
            rows[rows_of[figure.quarter] + age].append(f"{figure.line},{figure.quarter},{said},{reason}\n")
    return {f"{folder}/{quarter}.csv": head + "".join(own) for quarter, own in zip(quarters, rows, strict=True)}


class Restated(NamedTuple):
    """The rows of the CSV, and those of them that changes.md lists."""

    rows: tuple[Row, ...]
    listed: tuple[Row, ...]


def right_rows(site_config: SiteConfig, figures: Sequence[Figure], custom: Custom) -> Restated:
    """The rows as the board wants them, without the header."""
    quarters = sorted({figure.quarter for figure in figures})
    ordered = sorted(figures, key=lambda f: custom.order(quarters.index(f.quarter), site_config.lines.index(f.line)))
    rows, listed = [], []
    for figure in ordered:
        row, is_listed = _row(figure, custom)
        rows.append(row)
        if is_listed:
            listed.append(row)
    return Restated(tuple(rows), tuple(listed))


def _row(figure: Figure, custom: Custom) -> tuple[Row, bool]:
    first, restated = figure.first, [entry for entry in figure.entries[1:] if entry.amount is not None]
    amounts = [entry.amount or 0 for entry in restated if custom.counts(first, entry)]
    standing = custom.pick(first, amounts)
    year, _, number = figure.quarter.partition("-Q")
    head = (figure.line, custom.quarter(year, int(number)), custom.amount(first))
    if custom.withdrawn and figure.entries[-1].amount is None:
        return (*head, custom.withdrawn, custom.withdrawn), True
    if standing == first:
        return (*head, custom.amount(standing), custom.still), False
    change = custom.change(first, standing) if custom.change else custom.signed(standing - first)
    listed = abs(standing - first) * 100 >= custom.listed * first
    return (*head, custom.mark.format(custom.amount(standing)), change), listed
