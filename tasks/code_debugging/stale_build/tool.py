#!/usr/bin/env python3
"""Join the parts of src/ into the one file that is released, and describe the build in dist/build.json."""

import argparse
import hashlib
import json
import sys
from pathlib import Path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/build.py", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("release", help="the label of the release")
    add("date", help="the date of the release")
    add("--digest", default="sha256", metavar="NAME", help="hash function for the built file (default: sha256)")
    add("--channel", default="main", metavar="WORD", help="who gets it (default: main)")
    add("--banner", metavar="FILE", help="a text file to put at the top, as comments")
    add("--first", metavar="PART", help="the part to put first, before the order of parts.txt")
    add("--without", metavar="PART", action="append", default=[], help="a part to leave out")
    add("--seal", metavar="WORD", default="", help="a word to seal the build with (default: none)")
    return parser


def _body(part: str) -> str:
    """A part without its imports of other parts."""
    lines = Path("src", part).read_text().splitlines(keepends=True)
    return f"# {part}\n" + "".join(line for line in lines if not line.startswith("from common import"))


def main() -> int:
    """Exit code 0, or 2 with one line that says what is wrong."""
    options = _parser().parse_args()
    try:
        listed = Path("parts.txt").read_text().split()
        unknown = {*options.without, *filter(None, [options.first])} - set(listed)
        if unknown:
            return _fail(f"no such part: {', '.join(sorted(unknown))}; the parts are {', '.join(listed)}")
        parts = sorted(listed, key=lambda part: part != options.first)
        parts = [part for part in parts if part not in options.without]
        banner = Path(options.banner).read_text().splitlines() if options.banner else []
        made = "\n\n".join(map(_body, parts))
        digest = hashlib.new(options.digest, made.encode()).hexdigest()
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}")
    except (ValueError, TypeError):
        return _fail(f"no such digest: {options.digest}")
    head = [*banner, f"release {options.release} of {options.date}, made by tools/build.py: do not edit"]
    name = listed[-1]
    Path("dist").mkdir(exist_ok=True)
    Path("dist", name).write_text("".join(f"# {line}\n" for line in head) + "\n" + made)
    told = {
        "file": name,
        "release": options.release,
        "date": options.date,
        "channel": options.channel,
        "parts": parts,
        "digest": f"{options.digest}:{digest}",
        "seal": options.seal,
    }
    Path("dist", "build.json").write_text(json.dumps(told, indent=2) + "\n")
    sys.stdout.write(f"dist/{name}: release {options.release} of {options.date}, {len(parts)} parts\n")
    return 0


def _fail(reason: str) -> int:
    sys.stderr.write(f"build: {reason}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
