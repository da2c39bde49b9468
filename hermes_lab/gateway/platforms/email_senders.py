"""Who wrote a mail, and whether that is true. Headers can be written by anybody; what is not plain is not believed."""

import re
from collections.abc import Sequence
from email.errors import MessageError
from email.header import decode_header, make_header
from typing import NamedTuple

from hermes_lab.gateway.platforms.email_text import clean

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_ADDRESS = rf"{_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*"
_WORD = r'(?:"(?:[^"\\]|\\.)*+"|[^\s<>@,;:"()\[\]\\]++)'
_FROM = re.compile(
    rf"\s*(?:(?P<name>(?:{_WORD}\s*+)*+)<(?P<address>{_ADDRESS})>|(?P<bare>{_ADDRESS})(?:\s+\([^()\\]*\))?)\s*"
)
_HEADER = re.compile(r"([!-9;-~]+)[ \t]*:(.*)", re.DOTALL)
_LONGEST_ADDRESS, _LONGEST_NAME, _LONGEST_HEADER = 254, 100, 20_000
_BULK = ("bulk", "list", "junk", "auto_reply")
_AUTOMATIC = ("x-autoreply", "x-autorespond", "x-autoresponse")


class Ignored(Exception):
    """A mail that starts no turn. The text says why, without a word of the mail."""


class Unknown(Ignored):
    """It has no word of the server that is to be believed: if that is so for all mails, the settings are wrong."""


class Trust(NamedTuple):
    """Which mails count. `address`: the agent's own. `authority`: who must say that a mail is authentic; "": nobody."""

    address: str
    authority: str


class Headers:
    """The headers of a mail, from the top. Raises `Ignored` if they are malformed: servers and clients may read such
    headers differently, so that one sees another sender than the other."""

    def __init__(self, raw: bytes) -> None:
        head = raw.partition(b"\r\n\r\n")[0].removesuffix(b"\r\n")
        lines: list[str] = []
        for line in head.decode("utf-8", "surrogateescape").split("\r\n"):
            if line[:1] in (" ", "\t") and lines:
                lines[-1] += line
            else:
                lines.append(line)
        found = [_HEADER.fullmatch(line) for line in lines]
        longest = max(map(len, lines))
        if not all(found) or longest > _LONGEST_HEADER or re.search(r"[\r\n\x00]", "".join(lines)):
            raise Ignored("its headers are malformed")
        self._items = [(each[1].lower(), each[2].strip()) for each in found if each]

    def all(self, name: str) -> Sequence[str]:
        """The values of a header, as they were sent, from the top."""
        return [value for each, value in self._items if each == name]

    def first(self, name: str) -> str:
        """The first value of a header; "" if there is none."""
        return next(iter(self.all(name)), "")

    def text(self, name: str) -> str:
        """The first value of a header, decoded, on one line."""
        return _decoded(self.first(name))

    @property
    def names(self) -> set[str]:
        """The names, in lower case."""
        return {name for name, _ in self._items}


def is_address(text: str) -> bool:
    """Whether it is one plain address, and nothing else."""
    return len(text) <= _LONGEST_ADDRESS and re.fullmatch(_ADDRESS, text) is not None


def sender_of(headers: Headers, trust: Trust) -> tuple[str, str]:
    """The address, in lower case, and the shown name of whom a mail is from.

    Raises `Ignored` if it has not exactly one plain address, is not authentic, is the agent's own, or was not written
    by a person.
    """
    given = headers.all("from")
    if len(given) != 1 or (found := _FROM.fullmatch(given[0])) is None:
        raise Ignored("it has no single plain From address")
    address = (found["address"] or found["bare"]).lower()
    if not is_address(address):
        raise Ignored("its From address is too long")
    if address == trust.address.lower():
        raise Ignored("it is from the agent itself")
    if _is_automatic(headers, address):
        raise Ignored("it was sent automatically")
    if trust.authority:
        _check_authentic(headers, address.rpartition("@")[2], trust.authority.lower())
    return address, _decoded((found["name"] or "").strip().strip('"'))[:_LONGEST_NAME]


def _is_automatic(headers: Headers, address: str) -> bool:
    """Whether a program sent it: an answer to it may be answered in turn, for ever."""
    return (
        _word(headers.first("auto-submitted")) not in ("", "no")
        or any(_word(value) in _BULK for value in headers.all("precedence"))
        or any(name.startswith("list-") or name in _AUTOMATIC for name in headers.names)
        or any(re.fullmatch(r"<\s*>", value) for value in headers.all("return-path"))
        or any(_word(value) == "multipart/report" for value in headers.all("content-type"))
        or address.startswith("mailer-daemon@")
    )


def _word(value: str) -> str:
    return re.split(r"[\s;(]", value.strip().lower(), maxsplit=1)[0]


def _check_authentic(headers: Headers, domain: str, authority: str) -> None:
    """Only the topmost `Authentication-Results` counts, and only that of our own server: a server writes its headers
    above those that it was sent."""
    plain = _bare(headers.first("authentication-results"))
    if plain is None or not plain.strip():
        raise Unknown("it has no Authentication-Results that can be read")
    first, *results = (part.strip() for part in plain.lower().split(";"))
    server = first.partition(" ")[0]
    if server != authority and not server.endswith(f".{authority}"):
        shown = re.sub(r"[^a-z0-9.-]", "?", server)[:_LONGEST_NAME]
        raise Unknown(f"its topmost Authentication-Results is of {shown}, not of gateway.email.authority={authority}")
    said = [result for result in results if re.match(r"dmarc(/1)?=", result)]
    if len(said) != 1 or not re.match(r"dmarc(/1)?=pass(\s|$)", said[0]):
        raise Ignored("its Authentication-Results has no dmarc=pass")
    if re.findall(r"\sheader\.from=(\S*)", said[0]) != [domain]:
        raise Ignored("its Authentication-Results is about another domain")


def _bare(value: str) -> str | None:
    """A structured header without comments, and with `"` for each quoted string, for both may hold what a stranger
    wrote; None if it is unbalanced."""
    kept: list[str] = []
    depth, quoted, escaped = 0, False, False
    for character in value:
        if escaped:
            escaped = False
        elif character == "\\" and (depth or quoted):
            escaped = True
        elif quoted:
            quoted = character != '"'
        elif character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
            kept.append(" ")
        elif not depth:
            quoted = character == '"'
            kept.append(character)
        if depth < 0:
            return None
    if depth or quoted or escaped:
        return None
    return re.sub(r"\s*=\s*", "=", " ".join("".join(kept).split()))


def _decoded(value: str) -> str:
    try:
        text = str(make_header(decode_header(value)))
    except (ValueError, LookupError, MessageError):  # such as an unknown charset
        text = value
    return " ".join(clean(text).split())
