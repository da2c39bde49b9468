#!/usr/bin/env python3
"""Control units. Every action belongs to a change: `open` starts it, `close` ends it."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CHANGES = HERE / "var" / "changes"
APPLIED = ("reload", "restart", "respawn", "cycle")


class Refused(Exception):
    """A one-line error message."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./svc", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    opened = commands.add_parser("open", help="start a change; reopening a change starts it over")
    opened.add_argument("ticket")
    opened.add_argument("--by", metavar="ROLE", help="who is responsible for it")
    closed = commands.add_parser("close", help="end the change")
    closed.add_argument("--result", metavar="WORD", default="done", help="the outcome (default: done)")
    verbs = {
        "reload": "have the unit read its settings again",
        "restart": "stop the unit and start it again",
        "respawn": "start a new process before the old one stops",
        "cycle": "restart the workers of the unit one by one",
    }
    for verb, text in verbs.items():
        applied = commands.add_parser(verb, help=text, allow_abbrev=False)
        applied.add_argument("unit", metavar="UNIT[@INSTANCE]")
        applied.add_argument("--grace", metavar="TIME", help="how long open requests may take to finish")
        applied.add_argument("--reason", metavar="TEXT", help="why, for the audit log")
        applied.add_argument("--wait", metavar="COUNT", help="how many requests to let through first")
        applied.add_argument("--scope", metavar="NAME", help="which workers to reload")
    for verb, text in {
        "probe": "record how the unit responds now",
        "hold": "stop new requests to the unit",
        "release": "allow requests to it again",
        "tag": "label the current settings of the unit with a word",
    }.items():
        other = commands.add_parser(verb, help=text, allow_abbrev=False)
        other.add_argument("unit", metavar="UNIT[@INSTANCE]")
        if verb == "tag":
            other.add_argument("word")
    commands.add_parser("status", help="show the units and the open change").add_argument("unit", nargs="?")
    return parser


def _settings(unit: str) -> dict[str, str]:
    """The settings of a unit, as they are written."""
    path = HERE / "etc" / "env" / f"{unit.partition('@')[0]}.env"
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in path.parent.glob("*.env")))
        raise Refused(f"no unit {unit}; the units are: {known}")
    lines = (line.strip().removeprefix("export ") for line in path.read_text().splitlines())
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {key: value for key, _, value in pairs}


def _current() -> tuple[Path, dict[str, Any]]:
    pointer = CHANGES / "current"
    if not pointer.is_file():
        raise Refused("no change is open; start one with ./svc open TICKET")
    path = CHANGES / f"{pointer.read_text().strip()}.json"
    return path, json.loads(path.read_text())


def _write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def _open(ticket: str, by: str | None) -> str:
    if not ticket.replace("-", "").isalnum():
        raise Refused(f"{ticket} is not a ticket")
    _write(CHANGES / f"{ticket}.json", {"ticket": ticket, "by": by, "steps": [], "result": None})
    (CHANGES / "current").write_text(f"{ticket}\n")
    return f"change {ticket} is open"


def _close(result: str) -> str:
    path, change = _current()
    _write(path, {**change, "result": result})
    (CHANGES / "current").unlink()
    return f"change {change['ticket']} is closed: {result}"


def _step(options: dict[str, Any]) -> str:
    unit, verb = options.pop("unit"), options.pop("command")
    settings = _settings(unit)
    path, change = _current()
    step = {"verb": verb, "unit": unit, "options": {key: value for key, value in options.items() if value is not None}}
    if verb in APPLIED:
        step["settings"] = settings
        _write(HERE / "run" / f"{unit.partition('@')[0]}.json", {"by": verb, "settings": settings})
    _write(path, {**change, "steps": [*change["steps"], step]})
    return f"{verb} {unit}: done"


def _status(unit: str | None) -> str:
    lines = []
    for path in sorted((HERE / "etc" / "env").glob("*.env")):
        if unit in (None, path.stem):
            state = HERE / "run" / f"{path.stem}.json"
            same = state.is_file() and json.loads(state.read_text())["settings"] == _settings(path.stem)
            lines.append(f"{path.stem}: {'runs with its current settings' if same else 'runs with older settings'}")
    current = CHANGES / "current"
    return "\n".join([*lines, f"open change: {current.read_text().strip() if current.is_file() else 'none'}"])


def main() -> int:
    """Exit code 0, or 2 with one line that says what is wrong."""
    options = vars(_parser().parse_args())
    command = options["command"]
    try:
        if command == "open":
            said = _open(options["ticket"], options["by"])
        elif command == "close":
            said = _close(options["result"])
        elif command == "status":
            said = _status(options["unit"])
        else:
            said = _step(options)
    except Refused as error:
        sys.stderr.write(f"svc: {error}\n")
        return 2
    sys.stdout.write(f"{said}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
