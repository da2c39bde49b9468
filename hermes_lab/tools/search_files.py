"""The `search_files` tool: runs `find` and `grep` in the sandbox, in a fixed order and without following links."""

import re
import shlex
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import Field

from hermes_lab.errors import ToolError
from hermes_lab.sandbox.workspace import WORKSPACE, components
from hermes_lab.tools.glob import literal, regex
from hermes_lab.tools.paths import file_path
from hermes_lab.tools.registry import ToolContext, tool
from hermes_lab.tools.scratch import room, run_script

_LINE_BYTES = 1_000
_END = "--"  # the last line of untruncated output
_LINE = re.compile(r"(?P<path>[^\0]+)\0(?P<number>\d+)(?P<mark>[:-])(?P<text>.*)\n")
_COUNT = re.compile(r"(?P<path>[^\0]+)\0(?P<count>\d+)\n")

# Text files are those without NUL, hence LC_ALL=C: in other locales, `grep -I` also skips files that are not UTF-8.
# No part of the path may be a link, so that `find` only returns regular files inside the workspace.
_FOUND = """\
export LC_ALL=C.UTF-8
for path in {parts}; do
  [[ -L $path ]] && {{ echo "${{path#./}}: symbolic links are not followed"; exit 1; }}
  [[ -e $path ]] || {{ echo "${{path#./}}: No such file or directory"; exit 1; }}
done
found() {{
  find {path} -regextype posix-extended -name .git -prune -o -type f -regex {names} -print0 2>/dev/null | sort -z
}}
texts() {{
  found | LC_ALL=C xargs -0 -r grep -lZIs -e '' --
}}
"""
_PAGE = """\
mapfile -d '' -t files < <({source})
echo "${{#files[@]}}"
files=("${{files[@]:{offset}:{limit}}}")
((${{#files[@]}})) || exit 0
"""


@tool(toolset="file", parallel=True)
async def search_files(
    ctx: ToolContext,
    pattern: str,
    target: Literal["content", "files"] = "content",
    path: str = "",
    file_glob: str = "",
    output_mode: Literal["content", "files_only", "count"] = "content",
    context: Annotated[int, Field(ge=0, le=20)] = 0,
    limit: Annotated[int, Field(ge=1, le=1_000)] = 50,
    offset: Annotated[int, Field(ge=0)] = 0,
) -> dict[str, Any]:
    """Search files in the working directory by content (Perl regex, line by line) or by name (glob).

    Args:
        target: What the pattern must match. {compact: files: file names, such as *.py or src/**/*.py.} {full: files:
            file names; the pattern is then a glob.}
        path: Search only below this path.
        file_glob: Search the content of matching files only.
        context: Lines around each match.
        limit: Maximum number of lines or files.
        offset: Lines or files to skip.
    """
    if not pattern:
        raise ToolError("pattern: must not be empty")
    below = PurePosixPath(ctx.sandbox.workspace_path) if ctx.config.isolates else WORKSPACE
    found = _found(
        file_path(path), below, glob=pattern if target == "files" else file_glob or "*", itself=target == "content"
    )
    if target == "files":
        return await _names(ctx, found, "found", offset, limit)
    quoted = shlex.quote(pattern)
    check = f"grep -qP -e {quoted} </dev/null || (($? == 1)) || exit 1\n"
    matching = f"texts | xargs -0 -r grep -laZPs -e {quoted} --"
    try:
        if output_mode == "files_only":
            return await _names(ctx, check + found, matching, offset, limit)
        if output_mode == "count":
            count = f"grep -caHZPs -e {quoted} --"
            return await _counts(ctx, check + found, matching, count, offset, limit)
        grep = f"grep -naHZPs -C {context} --no-group-separator -e {quoted} --"
        return await _lines(ctx, check + found, f"texts | xargs -0 -r {grep}", offset, limit)
    except ToolError as error:
        message = str(error)
        raise ToolError(f"pattern: {message[6:]}" if message.startswith("grep: ") else message) from None


async def _lines(ctx: ToolContext, script: str, source: str, offset: int, limit: int) -> dict[str, Any]:
    page = f"{source} 2>/dev/null | cut -b 1-{_LINE_BYTES} | tail -n +{offset + 1} | head -n {limit + 1}"
    output = await run_script(ctx.sandbox, f"{script}{{ {page}; echo {_END}; }} | head -c {room(ctx)}; true")
    found = list(_LINE.finditer(output))
    lines = [f"{_name(match)}{match['mark']}{match['number']}{match['mark']}{_clipped(match)}" for match in found]
    shown = lines[:limit]
    more = len(lines) > limit or not output.endswith(f"{_END}\n")
    return {"matches": "\n".join(shown)} | ({"next_offset": offset + len(shown)} if more else {})


async def _names(ctx: ToolContext, script: str, source: str, offset: int, limit: int) -> dict[str, Any]:
    script += _PAGE.format(source=source, offset=offset, limit=limit)
    listed = f"printf '%s\\0' \"${{files[@]}}\" | head -c {room(ctx)}"
    total, names = (await run_script(ctx.sandbox, script + listed)).split("\n", 1)
    return {"files": [name.removeprefix("./") for name in names.split("\0")[:-1]], "total": int(total)}


async def _counts(ctx: ToolContext, script: str, source: str, count: str, offset: int, limit: int) -> dict[str, Any]:
    script += _PAGE.format(source=source, offset=offset, limit=limit)
    counted = f"printf '%s\\0' \"${{files[@]}}\" | xargs -0 {count} 2>/dev/null | head -c {room(ctx)}; true"
    total, counts = (await run_script(ctx.sandbox, script + counted)).split("\n", 1)
    return {"counts": {_name(m): int(m["count"]) for m in _COUNT.finditer(counts)}, "total": int(total)}


def _found(path: str, below: PurePosixPath, *, glob: str, itself: bool) -> str:
    """Returns a script that defines `found`: the files below `path` that match `glob`, or `path` itself if `itself`."""
    parts = (".",) if PurePosixPath(path) in (PurePosixPath(), below) else (".", *components(path, below))
    where = "/".join(parts)
    return _FOUND.format(
        parts=" ".join(shlex.quote("/".join(parts[: n + 1])) for n in range(len(parts))),
        path=shlex.quote(where),
        names=shlex.quote(f"{literal(where)}(/{regex(glob)}){'?' if itself else ''}"),
    )


def _name(match: re.Match[str]) -> str:
    return match["path"].removeprefix("./")


def _clipped(match: re.Match[str]) -> str:
    """Returns the text of a line, marked if it was truncated."""
    text = match["text"].removesuffix("\r")
    whole = len(match[0].removesuffix("\n").encode(errors="replace")) < _LINE_BYTES
    return text if whole else text.rstrip("\ufffd") + " [...]"
