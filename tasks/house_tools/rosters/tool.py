#!/usr/bin/env python3
"""Fills the roster of a day."""

import argparse
import csv
import sys
from pathlib import Path
from typing import Any


def _roster(shifts: list[dict[str, str]], asked: argparse.Namespace) -> list[str]:
    if asked.without:
        shifts = [shift for shift in shifts if shift["trade"] != asked.without]
    if asked.just:
        shifts = [shift for shift in shifts if shift["trade"] == asked.just]
    shifts = [shift for shift in shifts if int(shift["start"]) >= asked.since and int(shift["hours"]) >= asked.long]
    if asked.order:
        key = asked.order
        shifts = sorted(shifts, key=lambda shift: shift[key] if key == "person" else int(shift[key]))
    lines = []
    for shift in shifts:
        end = f"-{int(shift['start']) + int(shift['hours'])}" if asked.ends else ""
        person = shift["person"].split()[0] if asked.short else shift["person"]
        text = f"{shift['start']}{end}h{asked.later} {person}"
        if asked.trades:
            text += f" ({shift['trade']})"
        if asked.phones:
            text += f" {shift['phone']}"
        lines.append(f"{asked.post} {text}" if asked.post else text)
    return [*lines, *["-"] * asked.spare, *([asked.sign] if asked.sign else [])]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./rosters", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    add: Any = commands.add_parser("fill", help="a line a shift", allow_abbrev=False).add_argument
    add("file", help="the shifts, a CSV file")
    add("--out", required=True, metavar="FILE", help="where the roster goes")
    add("--without", metavar="TRADE", help="leave a trade out")
    add("--just", metavar="TRADE", help="one trade and no other")
    add("--since", metavar="HOUR", type=int, default=0, help="shifts from this hour on")
    add("--long", metavar="HOURS", type=int, default=0, help="the shortest shift")
    add("--order", metavar="COLUMN", help="go by this column")
    add("--ends", action="store_true", help="tell when shifts end")
    add("--later", metavar="MINUTES", default="", help="minutes after the hour")
    add("--phones", action="store_true", help="add the phone numbers")
    add("--short", action="store_true", help="first names alone")
    add("--trades", action="store_true", help="add the trades")
    add("--post", metavar="WORD", help="a post, at the front of lines")
    add("--spare", metavar="NUMBER", type=int, default=0, help="so many free lines")
    add("--sign", metavar="WORD", help="a name below it all")
    return parser


def main() -> int:
    """Runs the command; 2 with one line where it cannot."""
    asked = _parser().parse_args()
    try:
        with Path(asked.file).open(newline="") as file:
            shifts = list(csv.DictReader(file))
        lines = _roster(shifts, asked)
        Path(asked.out).write_text("".join(f"{line}\n" for line in lines))
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}")
    except KeyError as error:
        return _fail(f"{asked.file} has no column {error}")
    except ValueError as error:
        return _fail(f"{asked.file}: {error}")
    sys.stdout.write(f"{asked.out}: {len(lines)} lines\n")
    return 0


def _fail(reason: str) -> int:
    sys.stderr.write(f"rosters: {reason}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
