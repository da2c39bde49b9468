"""Finds commands in a skill's texts that run what they download or decode.

Published skills tell how a tool is installed in this way, so a text about more than that, which says that it installs
something, is only warned about. Whoever means harm can write such a text, too: a person judges the warning.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from hermes_lab.skills.compiled.problems import Problem
from hermes_lab.skills.snippets import code_blocks

_PART = r"(?:\\\n|[^|;`\n])"
"""A character of a command, which may go on in the next line."""
_SHELL = (
    r"(?:sudo\s+(?:-\w+\s+)*)?(?:/\S{0,40}/)?"
    r"(?:(?:ba|z|da|k|fi)?sh\b|(?:python3?|perl|node|ruby)(?=\s*(?:-\s|-?[`'\")\n;&|]|-?$)))"
)
"""A program that runs what it is given; `python -m json.tool` only reads it."""
_ADDRESS = rf"(?={_PART}{{0,300}}?(?:://|\$|\w\.\w))"
"""Something to fetch follows, and not the next column of a table."""
_DOWNLOADS = re.compile(
    rf"\b(?:curl|wget)\s{_ADDRESS}{_PART}{{0,500}}\|\s*(?:tee\s{_PART}{{0,80}}\|\s*)?{_SHELL}"
    rf"|(?:\b(?:ba|z|da|k)?sh|\bpython3?|\bsource|\beval|(?<![\w.])\.)\s+(?:-\w+\s+)*[\"']?(?:<\(|\$\(|`)\s*"
    rf"(?:curl|wget)\s{_ADDRESS}"
    rf"|\b(?:irm|iwr|invoke-(?:webrequest|restmethod))\s{_ADDRESS}{_PART}{{0,500}}\|\s*"
    r"(?:iex|invoke-expression)\b",
    re.IGNORECASE,
)
_DECODES = re.compile(
    rf"\b(?:base(?:64|32)\s+(?:-\w*d\w*|--decode)|xxd\s+-r)\b{_PART}{{0,100}}\|\s*{_SHELL}"
    rf"|(?:\b(?:ba|z|da|k)?sh|\beval)\s+(?:-\w+\s+)*[\"']?(?:<\(|\$\(|`)[^`\n]{{0,300}}\bbase(?:64|32)\s+(?:-\w*d|--decode)",
    re.IGNORECASE,
)
_INSTALLS = re.compile(
    r"\b(?:(?:re)?instal\w*|set-?up|missing|prerequisites?|requirements?|requires?|upgrad\w+|bootstrap\w*"
    r"|never|avoid|do not|don't|instead of|rather than)\b|安装|安裝|インストール|설치|установ",
    re.IGNORECASE,
)
_BEFORE = 4
"""The line of the command and those before it, in which a text says what the command is for."""
_LETTERS = 100
"""A skill with fewer letters is about nothing but the command."""
_NAME = re.compile(r"[/.]\w")
"""In the name of a file or an address, which may be called anything."""
_CODE = re.compile(r"`[^`\n]*`|^ {0,3}#.*$|^(?: {4}|\t).*$", re.MULTILINE)


def scan_texts(texts: Mapping[str, str], about: Iterable[str]) -> Iterator[Problem]:
    """The problems of a skill's texts, given by path. `about` is what they say, without frontmatter."""
    short = sum(map(_letters, about)) < _LETTERS
    for path, text in texts.items():
        lines = text.split("\n")
        for number, _ in _found(_DECODES, text):
            yield Problem("error", path, number, "runs decoded data")
        for number, command in _found(_DOWNLOADS, text):
            said = "\n".join(lines[max(0, number - _BEFORE) : number]).replace(command, "")
            said = " ".join(word for word in said.split() if not _NAME.search(word))
            documented = not short and _INSTALLS.search(said)
            yield Problem("error", path, number, "runs what it downloads", "sandboxed" if documented else "")


def _found(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, str]]:
    """The first match in each line, with the line's number."""
    line, at, last = 1, 0, 0
    for match in pattern.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        if line != last:
            yield line, match[0]
        last = line


def _letters(text: str) -> int:
    """The letters of a text that are not in code, headings or addresses."""
    kept, at = [], 0
    for start, end, _ in code_blocks(text):
        kept.append(text[at:start])
        at = end
    words = _CODE.sub(" ", "".join([*kept, text[at:]])).split()
    return sum(letter.isalpha() for word in words if "://" not in word for letter in word)
