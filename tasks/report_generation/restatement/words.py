"""The words of boards' figures, the notes on them and requests; none is shared between the splits."""

from collections.abc import Mapping
from dataclasses import dataclass
from string import Template

from hermes_lab.tasks.report_generation._conventions import words


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split."""

    labels: tuple[tuple[str, ...], ...]
    """Of the columns: line, quarter, first, standing, change, reason."""
    lines: tuple[str, ...]
    reasons: tuple[str, ...]
    headings: tuple[str, ...]
    restated: tuple[str, ...]
    currencies: tuple[str, ...]
    withdrawn: tuple[str, ...]
    notes: Template


VOCABULARIES: Mapping[str, Vocabulary] = {
    "train": Vocabulary(
        labels=(
            words("line, quarter, first, standing, change, reason"),
            words("item, period, original, current, shift, cause"),
            words("account, term, filed, valid, move, ground"),
        ),
        lines=words(
            "Sales, Grants, Wages, Rent, Interest, Repairs, Fees, Donations, Taxes, Travel, Power, Licences, Stock"
        ),
        reasons=words("error, policy, merger, currency, audit, timing"),
        headings=words("Restatements, Restated figures"),
        restated=words("Restated, Changed"),
        currencies=words("EUR, USD, CHF"),
        withdrawn=words("withdrawn, void, dropped"),
        notes=Template("""\
# Which figures stand

Each file in $folder is the filing of a quarter: its own figures, then those of earlier quarters that it restates,
with the $reason. All amounts are thousands of $currency. The lines are, in this order: $lines.

Of each figure the amount of the latest filing stands. A dash restates nothing: what stood before goes on standing.

- standing.csv has the header `$line,$quarter,$first,$standing,$change` and a row for each figure, by quarter from
  the oldest, then by line. `$first` is the amount of the quarter's own filing, `$change` is $standing less $first
  with its sign (+12, -7), or 0. Amounts are plain digits.
- changes.md has the heading `# $heading`, then a line `$restated: 3 of 24` (how many figures do not stand as first
  filed, of how many), then one table with the same columns and the rows of those figures, written and ordered as in
  the CSV.

A board that reads its figures in another way gets them so.
"""),
    ),
    "validation": Vocabulary(
        labels=(words("category, qtr, initial, effective, delta, motive"),),
        lines=words("Turnover, Subsidies, Payroll, Leases, Refunds, Royalties, Freight, Insurance"),
        reasons=words("typo, reclass, disposal, index, review"),
        headings=words(
            "Amended figures",
        ),
        restated=words(
            "Amended",
        ),
        currencies=words("GBP, SEK"),
        withdrawn=words("revoked, gone"),
        notes=Template("""\
# Amendments, in short

$folder holds one CSV file per quarter. It opens with that quarter's numbers and goes on with amended numbers of
quarters before, where `$reason` says why. Unit: thousand $currency. Sequence of categories: $lines.

The most recent amount is the effective one; a dash as amount leaves things as they were.

* In standing.csv, below the header `$line,$quarter,$first,$standing,$change`, every number gets its row, old
  quarters ahead of new ones and categories in sequence. `$first` repeats the quarter's own file; `$change`, the
  effective number minus the initial one, carries a plus or a minus (zero is just 0). No separators in numbers.
* changes.md: heading `# $heading`; below it `$restated: 3 of 24`, meaning 3 numbers out of 24 differ from the
  initial ones; below that a single table, whose columns and rows are those of the CSV for the numbers that differ.

Boards may have agreed on something else, which then applies.
"""),
    ),
    "heldout": Vocabulary(
        labels=(
            words("position, season, opening, binding, adjustment, basis"),
            words("entry, span, reported, accepted, correction, occasion"),
        ),
        lines=words(
            "Revenue, Endowment, Salaries, Materials, Pensions, Tickets, Loans, Catering, Cleaning, Fines, Dividends"
        ),
        reasons=words("misprint, standard, takeover, rates, inspection, cutoff"),
        headings=words("Corrections to earlier figures, Revised entries"),
        restated=words("Revised, Corrected"),
        currencies=words("NOK, DKK, PLN"),
        withdrawn=words("cancelled, struck, annulled"),
        notes=Template("""\
# On revisions

For every quarter there is a file in $folder. First come the quarter's own amounts, afterwards any revised amounts
of past quarters along with their $reason. They are stated in thousands of $currency, for: $lines (keep this order).

Whatever was filed last is binding, save that a dash revises nothing and the preceding amount remains.

1. Create standing.csv. Header: `$line,$quarter,$first,$standing,$change`. One row per amount, sorted by quarter
   (earliest on top) and inside a quarter as listed above. Put the amount from the quarter's own file under
   `$first`, and under `$change` the result of $standing minus $first, signed (+12 or -7) unless it is 0. Digits
   only, no grouping.
2. Create changes.md. Title line `# $heading`. Next `$restated: 3 of 24`: the count of amounts whose binding value
   is not the opening one, and the count of all. Last, a table, the only one, repeating header and rows of those
   amounts from the CSV in unchanged form and order.

Deviating habits of a board prevail over this note.
"""),
    ),
}

REQUESTS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "{place} wants to know which figures stand by the filings up to {last}. They are in {folder}.",
        "Please restate the figures of {place}: all filings up to {last} are in {folder}.",
        "Work out for {place} which figures stand after the filing of {last} (see {folder}).",
        "The filing of {last} is in, so {place} needs its restated figures. Everything is in {folder}.",
        "Take the filings in {folder}, the latest is {last}, and bring the figures of {place} up to date.",
        "What stands, and what has changed, for {place} as of {last}? The filings are in {folder}.",
        "We have restated a lot up to {last}. Set it out for {place} from the files in {folder}.",
        "For the meeting of {place}: the standing figures after {last}, from {folder}.",
        "Go through {folder} and put together the restated figures of {place}, {last} included.",
    ),
    "validation": (
        "{place} asks for effective figures, amendments through {last} included; the files are under {folder}.",
        "Sort out the amendments through {last} in {folder} on behalf of {place}.",
        "Amendments have piled up in {folder}. Tell {place} what is effective after {last}.",
        "After {last}, what is effective for {place}? Consult {folder}.",
    ),
    "heldout": (
        "Revisions keep coming. Draw from {folder} what binds {place} once {last} has been filed.",
        "{place} must be told its binding amounts, revisions of {last} taken in; you have {folder}.",
        "From the quarterly files in {folder}, {last} being the newest, derive the binding amounts for {place}.",
        "I need the revisions that concern {place} settled. Files: {folder}, through {last}.",
        "Settle for {place} which amounts bind after {last}. The quarterly files lie in {folder}.",
        "Before {place} convenes, settle the revisions in {folder}, up to and with {last}.",
    ),
}
DELIVERIES: Mapping[str, tuple[str, ...]] = {
    "train": (
        "notes.md says how; write standing.csv and changes.md.",
        "I expect standing.csv and changes.md, made as notes.md says.",
        "Leave standing.csv and changes.md in the form of notes.md.",
        "The form is in notes.md, the results are standing.csv and changes.md.",
        "Both standing.csv and changes.md are needed, see notes.md.",
    ),
    "validation": (
        "Deliver standing.csv together with changes.md, as laid out in notes.md.",
        "Read notes.md, then produce standing.csv plus changes.md.",
    ),
    "heldout": (
        "notes.md governs the two results, standing.csv and changes.md.",
        "Two files come of it, standing.csv and changes.md; notes.md has the particulars.",
        "The particulars are given in notes.md, and what you hand in are standing.csv and changes.md.",
    ),
}
