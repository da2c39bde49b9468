#!/usr/bin/env python3
"""Adds up the `amount` column of an export and writes {"total": number}."""

import argparse
import csv
import json
import sys
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def _pair(text: str) -> tuple[str, str]:
    column, equals, value = text.partition("=")
    if not (column and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN=VALUE")
    return column, value


def _scale(text: str) -> tuple[str, str, Decimal]:
    column, rest = _pair(text)
    value, colon, factor = rest.partition(":")
    if not (value and colon):
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMN=VALUE:FACTOR")
    return column, value, _number(factor)


def _since(text: str) -> tuple[str, Decimal]:
    column, number = _pair(text)
    return column, _number(number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./ledger", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("sum", help="add up an export", allow_abbrev=False).add_argument
    add("file", help="CSV file with the export")
    add("--out", required=True, metavar="FILE", help="file to write the total to")
    pair: dict[str, Any] = {"metavar": "COLUMN=VALUE", "type": _pair, "action": "append", "default": []}
    add("--drop", help="leave out rows with this value; * matches anything, A..B numbers from A to B", **pair)
    add("--keep", help="count only rows with this value, written as for --drop", **pair)
    add("--negate", help="subtract rows with this value", **pair)
    add("--halve", help="count half of rows with this value", **pair)
    add("--scale", metavar="COLUMN=VALUE:FACTOR", type=_scale, help="multiply rows with this value by a factor")
    add("--since", metavar="COLUMN=NUMBER", type=_since, help="count only rows from this number on")
    add("--null", metavar="AMOUNT", type=_number, help="leave out rows with this amount")
    add("--cap", metavar="AMOUNT", type=_number, help="count at most this much of each amount")
    add("--cut", metavar="ROWS", type=int, default=0, help="leave out this many rows at the end")
    add("--latest", metavar="COLUMN", help="count only the last row for each value of this column")
    add("--first", metavar="COLUMN", help="count only the first row for each value of this column")
    add("--times", metavar="COLUMN", help="multiply each amount by this column")
    add("--plus", metavar="COLUMN", help="add this column to each amount")
    add("--minus", metavar="COLUMN", help="subtract this column from each amount")
    add("--add", metavar="AMOUNT", type=_number, default=Decimal(0), help="add this once to the total")
    add("--divide", metavar="NUMBER", type=_number, default=Decimal(1), help="divide the total by this")
    return parser


def _matches(cell: str, value: str) -> bool:
    low, dots, high = value.partition("..")
    return Decimal(low) <= Decimal(cell) <= Decimal(high) if dots else fnmatchcase(cell, value)


def _select(rows: list[dict[str, str]], options: argparse.Namespace) -> list[dict[str, str]]:
    rows = rows[: max(0, len(rows) - options.cut)]
    for column, value in options.drop:
        rows = [row for row in rows if not _matches(row[column], value)]
    for column, value in options.keep:
        rows = [row for row in rows if _matches(row[column], value)]
    if options.since:
        column, number = options.since
        rows = [row for row in rows if Decimal(row[column]) >= number]
    if options.null is not None:
        rows = [row for row in rows if Decimal(row["amount"]) != options.null]
    if options.latest:
        rows = list({row[options.latest]: row for row in rows}.values())
    if options.first:
        rows = list({row[options.first]: row for row in reversed(rows)}.values())
    return rows


def _amount(row: dict[str, str], options: argparse.Namespace) -> Decimal:
    amount = Decimal(row["amount"])
    if options.cap is not None:
        amount = min(amount, options.cap)
    if options.times:
        amount *= Decimal(row[options.times])
    if options.plus:
        amount += Decimal(row[options.plus])
    if options.minus:
        amount -= Decimal(row[options.minus])
    if options.scale and row[options.scale[0]] == options.scale[1]:
        amount *= options.scale[2]
    for column, value in options.halve:
        amount = amount / 2 if row[column] == value else amount
    for column, value in options.negate:
        amount = -amount if row[column] == value else amount
    return amount


def main() -> int:
    """Runs the command. Returns 2 after an error."""
    options = _parser().parse_args()
    try:
        with Path(options.file).open(newline="") as file:
            table = csv.DictReader(file)
            rows = list(table)
        added = sum((_amount(row, options) for row in _select(rows, options)), Decimal(0))
        total = float((added + options.add) / options.divide)
        Path(options.out).write_text(json.dumps({"total": total}))
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}")
    except KeyError as error:
        return _fail(f"{options.file} has no column {error}; it has {', '.join(table.fieldnames or ())}")
    except ArithmeticError:
        return _fail(f"{options.file} or an option has a value that is not a usable number")
    sys.stdout.write(f"{options.out}: total {total:.2f}\n")
    return 0


def _fail(reason: str) -> int:
    sys.stderr.write(f"ledger: {reason}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
