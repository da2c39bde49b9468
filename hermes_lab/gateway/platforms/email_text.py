"""The text of a mail: what its sender wrote, without markup, the quoted history and the signature."""

import email
import re
from collections.abc import Iterator, Sequence
from email.message import Message
from html.parser import HTMLParser

from hermes_lab.commands.registry import Registry

_LONGEST, _LONGEST_HTML = 50_000, 200_000
_MOST_NAMES, _LONGEST_NAME = 20, 100
_MOST_SIGNATURE = 12
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_ATTRIBUTION = re.compile(r"(On .{4,300} wrote|Am .{4,300} schrieb.{0,200}|Le .{4,300} a écrit\s?):", re.DOTALL)
_RULE = re.compile(r"_{10,}|-{3,} ?[^\W\d][^\n-]{2,40}[^\W\d] ?-{3,}")
_SENDER = re.compile(r"\*?(From|Von|De|Da|Van|Från|Fra|Od|От):\*? ?\S.*")
_HEADER = re.compile(r"\*?[^\W\d_][^\n:]{0,20}:\*? ?\S.*")
"""The line above quoted mails in Outlook, such as `-----Original Message-----`, and the headers below it, that of the
sender first."""
_UNREADABLE = "[The text of this mail could not be read.]"
_NO_TEXT = frozenset({"script", "style", "head", "title", "template"})
_LINES = frozenset(("p", "div", "tr", "table", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "blockquote"))


def clean(text: str) -> str:
    """The text without invisible controls and lone surrogates, and with `\\n` for each end of a line."""
    whole = text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace").decode()
    return _UNSEEN.sub("", whole)


def text_of(raw: bytes, subject: str, *, whole: bool) -> str:
    """What a mail says. `subject` is shown above it, unless it is empty; `whole` says that `raw` is all of the mail.

    Attachments are named in a line. May take a second for a hostile mail; never fails.
    """
    try:
        texts: list[str] = []
        names: list[str] = []
        _collect(email.message_from_bytes(raw), texts, names)
        said = _said("\n".join(filter(None, map(str.strip, texts))))
    except Exception:  # the parser fails on some malformed or deeply nested mails
        said, names = _UNREADABLE, []
    if len(said) > _LONGEST:
        said, whole = said[:_LONGEST], False
    if said.startswith("/"):  # a command is nothing else
        return _command(said)
    parts = [f"Subject: {subject}\n" if subject else "", said]
    if names:
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        parts.append(f"\n[attached, not read: {', '.join(names[:_MOST_NAMES])}{more}]")
    if not whole:
        parts.append("\n[The mail is longer; the rest was not read.]")
    return "\n".join(filter(None, parts)).strip()


def _command(said: str) -> str:
    """A command without the signature that a phone puts below it: one without arguments is a line, and one with them,
    which mail programs wrap, ends at an empty line. Skills and paths keep their text."""
    line, _, _ = said.partition("\n")
    name, _, _ = line[1:].partition(" ")
    if (command := Registry("gateway").find(name)) is None:
        return said
    return said.partition("\n\n")[0] if command.hint else line


def _collect(part: Message, texts: list[str], names: list[str]) -> None:
    """Adds the texts that are to be read, and the names of what is not."""
    kind = part.get_content_type()
    if part.is_multipart() and kind.startswith("multipart/"):
        parts: Sequence[Message] = part.get_payload()  # type: ignore[assignment]
        if kind == "multipart/alternative":
            _choose(parts, texts, names)
        else:
            for each in parts:
                _collect(each, texts, names)
    elif part.get_content_disposition() == "attachment" or kind not in ("text/plain", "text/html"):
        names.append(_name(part, kind))
    elif kind == "text/html":
        texts.append(html_to_text(_decoded(part)[:_LONGEST_HTML]))
    else:
        texts.append(_decoded(part))


def _choose(parts: Sequence[Message], texts: list[str], names: list[str]) -> None:
    """Of versions of one text, the plain one, unless it is empty."""
    for each in sorted(parts, key=lambda part: part.get_content_type() != "text/plain"):
        found: list[str] = []
        also: list[str] = []
        _collect(each, found, also)
        if any(text.strip() for text in found):
            texts += found
            names += also
            return


def _name(part: Message, kind: str) -> str:
    given = part.get_filename() or ("a mail" if kind == "message/rfc822" else "without a name")
    shown = " ".join(re.sub(r"[\[\],]", " ", clean(given)).split())[:_LONGEST_NAME]
    return f"{shown} ({re.sub('[^a-z0-9./+-]', '', kind)[:_LONGEST_NAME]})"


def _decoded(part: Message) -> str:
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    try:
        text = data.decode(part.get_content_charset("utf-8"), "replace")
    except (LookupError, ValueError):  # no such charset, or none of texts
        text = data.decode("utf-8", "replace")
    return clean(text)


def _said(text: str) -> str:
    """The text without its signature and the history that it ends with. If nothing else is there, all of it."""
    lines = [line.rstrip() if line != "-- " else line for line in text.strip("\n").split("\n")]
    lines = lines[: _outlook(lines)]
    if "-- " in lines:
        at = len(lines) - 1 - lines[::-1].index("-- ")
        quoted = any(line.startswith(">") for line in lines[at:])
        if len(lines) - at <= _MOST_SIGNATURE and not quoted:
            lines = lines[:at]
    end = len(lines)
    while end and (not lines[end - 1] or lines[end - 1].startswith(">")):
        end -= 1
    if any(line.startswith(">") for line in lines[end:]):
        # The line above the history may be wrapped.
        for first in range(end - 1, max(end - 4, -1), -1):
            if _ATTRIBUTION.fullmatch("\n".join(lines[first:end])):
                lines = lines[:first]
                break
    return "\n".join(lines).strip() or text.strip()


def _outlook(lines: Sequence[str]) -> int:
    """Where the history begins that Outlook puts below a mail: at a rule that headers follow."""
    for at, line in enumerate(lines):
        below = [each for each in lines[at + 1 : at + 5] if each][:2] if _RULE.fullmatch(line) else []
        if len(below) == 2 and _SENDER.fullmatch(below[0]) and _HEADER.fullmatch(below[1]):
            return at
    return len(lines)


def html_to_text(html: str) -> str:
    """The text of a page of HTML; what it quotes has `> ` before each line."""
    reader = _Reader()
    reader.feed(_tame(html))
    reader.close()
    return "\n".join(reader.lines()).strip()


def _tame(html: str) -> str:
    """The HTML without comments and declarations, and with each `<` that no `>` follows as text: on those the parser
    takes quadratic time."""
    kept, at = [], 0
    while (start := html.find("<!--", at)) >= 0:
        kept.append(html[at:start])
        end = html.find("-->", start + 4)
        at = end + 3 if end >= 0 else len(html)
    plain = re.sub(r"<[!?][^<>]*>", "", "".join([*kept, html[at:]]))
    return re.sub(r"<(?=[^<>]*(?:<|\Z))", "&lt;", plain)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._lines: list[tuple[int, str]] = []
        self._line = ""
        self._quotes = 0
        self._skipped = 0
        self._kept = 0
        self._link = ""

    def lines(self) -> Iterator[str]:
        """What was read."""
        self._break()
        blank = True
        for depth, line in self._lines:
            if line or not blank:
                yield f"{'> ' * min(depth, 5)}{line}".rstrip()
            blank = not line

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _NO_TEXT:
            self._skipped += 1
        elif tag == "body":
            self._skipped = 0
        elif tag == "br":
            self._break()
        elif tag == "li":
            self._break()
            self._line = "- "
        elif tag in ("td", "th"):
            self._line += " "
        elif tag in _LINES:
            self._break(blank=tag in ("p", "blockquote") or tag.startswith("h"))
        elif tag == "a":
            self._link = dict(attrs).get("href") or ""
        self._quotes += tag == "blockquote"
        self._kept += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        if tag in _NO_TEXT:
            self._skipped = max(self._skipped - 1, 0)
        elif tag == "blockquote":
            self._break()
            self._quotes = max(self._quotes - 1, 0)
            self._break(blank=True)
        elif tag in _LINES:
            self._break(blank=tag == "p")
        elif tag == "a" and self._link.startswith(("http://", "https://")):
            if self._link not in self._line and not self._skipped:
                self._line += f" <{clean(self._link)}>"
            self._link = ""
        self._kept = max(self._kept - (tag == "pre"), 0)

    def handle_data(self, data: str) -> None:
        if self._skipped:
            return
        if self._kept:
            first, *rest = data.split("\n")
            self._line += first
            for line in rest:
                self._break()
                self._line = line
            return
        text = re.sub(r"\s+", " ", data)
        self._line += text.lstrip() if not self._line or self._line.endswith(" ") else text

    def _break(self, *, blank: bool = False) -> None:
        if self._line.strip():
            self._lines.append((self._quotes, self._line.rstrip()))
            self._line = ""
        if blank and self._lines and self._lines[-1][1]:
            self._lines.append((self._quotes, ""))
