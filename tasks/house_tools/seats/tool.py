#!/usr/bin/env python3
"""Seats the guests of an evening."""

import argparse
import csv
import sys
from pathlib import Path
from typing import Any


def _plan(guests: list[dict[str, str]], asked: argparse.Namespace) -> list[str]:
    if asked.without:
        guests = [guest for guest in guests if guest["group"] != asked.without]
    if asked.adults:
        guests = [guest for guest in guests if int(guest["age"]) >= asked.adults]
    if asked.by:
        guests = sorted(guests, key=lambda guest: guest[asked.by])
    if asked.front:
        guests = sorted(guests, key=lambda guest: guest["group"] != asked.front)
    if asked.back:
        guests = sorted(guests, key=lambda guest: guest["group"] == asked.back)
    places, lines = list(range(asked.begin, asked.begin + asked.step * 1000, asked.step)), []
    for guest, place in zip(guests, (place for place in places if place != asked.free), strict=False):
        name = guest["name"].split()[-1] if asked.surnames else guest["name"]
        shown = f"{name} ({guest['group']})" if asked.groups else name
        lines.append(f"{asked.row}{place}{asked.colon} {shown}")
    return lines[: asked.most]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./seats", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    add: Any = commands.add_parser("plan", help="a seat for each guest", allow_abbrev=False).add_argument
    add("file", help="the guests, a CSV file")
    add("--out", required=True, metavar="FILE", help="where the plan goes, a line a guest")
    add("--without", metavar="GROUP", help="leave a group out")
    add("--adults", metavar="AGE", type=int, help="leave out who is younger")
    add("--by", metavar="COLUMN", help="go by this column instead of the file's order")
    add("--front", metavar="GROUP", help="a group before all others")
    add("--back", metavar="GROUP", help="a group behind all others")
    add("--begin", metavar="NUMBER", type=int, default=1, help="the first seat")
    add("--step", metavar="NUMBER", type=int, default=1, help="from a seat to the next")
    add("--free", metavar="NUMBER", type=int, help="leave this seat free")
    add("--surnames", action="store_true", help="leave first names out")
    add("--groups", action="store_true", help="tell groups behind names")
    add("--row", metavar="LETTER", default="", help="a letter in front of numbers")
    add("--colon", metavar="SIGN", default=":", help="another sign behind numbers")
    add("--most", metavar="NUMBER", type=int, help="so many guests and no more")
    return parser


def main() -> int:
    """Runs the command; 2 with one line where it cannot."""
    asked = _parser().parse_args()
    try:
        with Path(asked.file).open(newline="") as file:
            guests = list(csv.DictReader(file))
        lines = _plan(guests, asked)
        Path(asked.out).write_text("".join(f"{line}\n" for line in lines))
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}")
    except KeyError as error:
        return _fail(f"{asked.file} has no column {error}")
    except ValueError as error:
        return _fail(f"{asked.file}: {error}")
    sys.stdout.write(f"{asked.out}: {len(lines)} guests\n")
    return 0


def _fail(reason: str) -> int:
    sys.stderr.write(f"seats: {reason}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
