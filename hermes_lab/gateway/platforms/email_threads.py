"""Threads of mails: which mails belong together, and how a reply is written so that it belongs to them."""

import hashlib
import mimetypes
import re
from collections.abc import Sequence
from email import policy
from email.header import Header
from email.message import EmailMessage
from email.utils import format_datetime, localtime
from pathlib import Path

import msgspec

from hermes_lab.gateway.platforms.email_senders import Headers
from hermes_lab.gateway.platforms.email_text import clean

_ID = re.compile(r"<[!-;=?-~]{1,248}>")
_RE = re.compile(r"((re|aw|sv|antw)(\[\d+\])?\s*:\s*)+", re.IGNORECASE)
_NO_THREAD = "0"
_MOST_REFERENCES, _LONGEST_SUBJECT = 20, 200
_MOST_FILE_BYTES = 15 << 20
_BODY = policy.SMTP.clone(cte_type="7bit")


class Thread(msgspec.Struct, frozen=True):
    """What a reply in a thread needs: the subject, and the ids of the mails so far, the first and the latest ones."""

    subject: str = ""
    references: tuple[str, ...] = ()

    @classmethod
    def of(cls, headers: Headers, subject: str) -> "Thread":
        """The thread of a mail, up to it."""
        earlier = _ids(headers, "references") or _ids(headers, "in-reply-to")[:1]
        return cls(subject[:_LONGEST_SUBJECT], _shortened([*earlier, *_ids(headers, "message-id")[:1]]))

    def before(self, id: str) -> tuple[str, ...]:
        """The ids for a reply to a mail: its own is the last one."""
        return _shortened([*(each for each in self.references if each != id), *filter(None, [id])])


def message_id(headers: Headers) -> str:
    """The id of a mail; "" if it has none that can be used."""
    return next(iter(_ids(headers, "message-id")), "")


def is_reply(headers: Headers) -> bool:
    """Whether a mail goes on with a thread."""
    return bool(_ids(headers, "references") or _ids(headers, "in-reply-to"))


def thread_of(headers: Headers, domain: str, otherwise: str) -> str:
    """The name of a mail's thread: that of the agent's mail which it answers, or a digest of the first mail's id.
    `otherwise` stands for the id of a mail without one."""
    ids = [*_ids(headers, "references"), *_ids(headers, "in-reply-to")]
    own = re.compile(rf"<[0-9a-f]{{24}}\.([0-9a-f]{{20}}|{_NO_THREAD})@{re.escape(domain)}>", re.IGNORECASE)
    for id in reversed(ids):
        if found := own.fullmatch(id):
            return "" if found[1] == _NO_THREAD else found[1].lower()
    first = next(iter([*ids, *_ids(headers, "message-id")]), otherwise)
    return hashlib.sha256(first.encode()).hexdigest()[:20]


def own_id(key: str, thread: str, domain: str) -> str:
    """The id of a mail of the agent: the same for each attempt to send it. It names the thread, for programs that
    leave out the first id of a thread in replies."""
    return f"<{hashlib.sha256(key.encode()).hexdigest()[:24]}.{thread or _NO_THREAD}@{domain}>"


def reply_subject(subject: str) -> str:
    """`Re: ` and the subject, on one line."""
    plain = _RE.sub("", " ".join(clean(subject).split()), count=1) if _RE.match(subject.strip()) else subject
    return f"Re: {' '.join(clean(plain).split())[:_LONGEST_SUBJECT]}".strip()


def write(
    *, sender: str, to: str, subject: str, id: str, references: Sequence[str], text: str, files: Sequence[Path]
) -> bytes:
    """A mail. Addresses and ids must be plain; the subject and the text may be anything. A file that is too large, or
    cannot be read, is named in the text instead. May block."""
    body = EmailMessage(policy=_BODY)
    parts, missing, left = [], [], _MOST_FILE_BYTES
    for path in files:
        name = " ".join(clean(path.name).split())
        try:
            data = path.read_bytes() if path.stat().st_size <= left else None
        except OSError:
            missing.append(f"[The file {name} could not be read.]")
            continue
        if data is None:
            missing.append(f"[The file {name} is too large for a mail.]")
        else:
            left -= len(data)
            parts.append((name, data))
    body.set_content(clean("\n".join([text, *missing])), charset="utf-8")
    for name, data in parts:
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        body.add_attachment(data, *kind.split("/", 1), filename=name)
    lines = [
        f"From: {sender}",
        f"To: {to}",
        f"Subject: {_encoded(subject)}",
        f"Date: {format_datetime(localtime())}",
        f"Message-ID: {id}",
        *([f"In-Reply-To: {references[-1]}", "References: " + "\r\n ".join(references)] if references else []),
        "Auto-Submitted: auto-replied",
    ]
    return "\r\n".join([*lines, ""]).encode("ascii") + body.as_bytes()


def _encoded(subject: str) -> str:
    """A subject as the value of its header. Nothing in it can end the header."""
    line = " ".join(clean(subject).split())
    plain = line.isascii() and "=?" not in line
    return Header(line, "us-ascii" if plain else "utf-8", header_name="Subject").encode(linesep="\r\n")


def _ids(headers: Headers, name: str) -> list[str]:
    return [id for value in headers.all(name)[:1] for id in _ID.findall(value)]


def _shortened(ids: Sequence[str]) -> tuple[str, ...]:
    once = tuple(dict.fromkeys(ids))
    return once if len(once) <= _MOST_REFERENCES else (once[0], *once[1 - _MOST_REFERENCES :])
