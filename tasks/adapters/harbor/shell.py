"""Splits a shell command into its simple parts, as far as needed to see what it installs."""

import re
import shlex
from functools import lru_cache
from typing import NamedTuple

_SEPARATOR = re.compile(r"&&|\|\||[;\n|&()]")
_KEYWORDS = re.compile(r"\s*(?:(?:if|then|elif|else|while|until|do|!|\{|time)\s+)*")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_BEFORE = frozenset({"sudo", "exec", "command", "nice", "nohup"})


class Part(NamedTuple):
    """A simple command of a longer one: its position, and its words without assignments before them."""

    start: int
    end: int
    words: tuple[str, ...]


@lru_cache(4096)
def parts(command: str) -> tuple[Part, ...]:
    """The simple commands of a command, in order. Quoted text and substitutions are left alone."""
    found: list[Part] = []
    start = 0
    for at, length in _separators(command):
        found.append(_part(command, start, at))
        start = at + length
    found.append(_part(command, start, len(command)))
    return tuple(part for part in found if part.words)


def _separators(command: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    at, quote, depth = 0, "", 0
    while at < len(command):
        char = command[at]
        if quote:
            if char == "\\" and quote == '"':
                at += 1
            elif char == quote:
                quote = ""
        elif char == "\\":
            at += 1
        elif char in "'\"`":
            quote = char
        elif command.startswith("$(", at):
            depth, at = depth + 1, at + 1
        elif depth and char in "()":
            depth += 1 if char == "(" else -1
        elif char == "#" and command[at - 1 : at] in ("", " ", "\t", "\n", ";"):
            at = command.find("\n", at) % (len(command) + 1) - 1  # to the end of the line
        elif not depth and (match := _SEPARATOR.match(command, at)) and command[at - 1 : at] != ">":
            found.append((at, len(match[0])))
            at += len(match[0]) - 1
        at += 1
    return found


def _part(command: str, start: int, end: int) -> Part:
    match = _KEYWORDS.match(command, start, end)
    start = match.end() if match else start
    text = command[start:end]
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = text.split()
    while words and (_ASSIGNMENT.match(words[0]) or words[0] in _BEFORE):
        words.pop(0)
    return Part(start, end, tuple(word for word in words if not re.fullmatch(r"\d?>.*|\}", word)))
