"""What the agent reads of a mail, and how its replies are written."""

import base64
import email
from email.message import EmailMessage
from email.policy import default
from pathlib import Path

import pytest

from hermes_lab.gateway.platforms.email_senders import Headers
from hermes_lab.gateway.platforms.email_text import html_to_text, text_of
from hermes_lab.gateway.platforms.email_threads import (
    Thread,
    message_id,
    own_id,
    reply_subject,
    thread_of,
    write,
)
from hermes_lab.sessions import SessionKey


def plain(body: str | bytes, kind: str = "text/plain; charset=utf-8", *more: str) -> bytes:
    content = body.encode() if isinstance(body, str) else body
    return "\r\n".join([f"Content-Type: {kind}", *more, "", ""]).encode() + content


def said(raw: bytes, subject: str = "", *, whole: bool = True) -> str:
    return text_of(raw, subject, whole=whole)


def test_the_subject_is_above_the_text_unless_the_text_is_a_command() -> None:
    assert said(plain("Buy some."), "Milk") == "Subject: Milk\n\nBuy some."
    assert said(plain(""), "Milk?") == "Subject: Milk?"
    assert said(plain("\r\n/status\r\n-- \r\nAnn\r\n"), "Milk") == "/status"
    assert said(b"From: x", "") == ""


ATTRIBUTION = "On Thu, 26 Nov 2026 at 10:00, Hermes <hermes@example.org> wrote:"
QUOTES = [
    (f"Yes.\n\n{ATTRIBUTION}\n> Shall I?\n>\n> Hermes\n", "Yes."),
    ("Yes.\nOn Thu, 26 Nov 2026 at 10:00, Hermes\n<hermes@example.org> wrote:\n\n> Shall I?", "Yes."),
    ("Ja.\n\nAm 26.11.2026 um 10:00 schrieb Hermes:\n> Soll ich?", "Ja."),
    (f"Yes.\n\n{ATTRIBUTION}\n> Shall I?\n\nAnd more below.", None),
    ("Look:\n> a quote without its author", None),
    (f"{ATTRIBUTION}\n> Shall I?\nYes.\n> And that?\nNo.", None),
    (f"{ATTRIBUTION}\n> All of it is quoted.", None),
    ("On Monday he wrote:\nno quote follows", None),
    (f"Yes.\n{ATTRIBUTION}", None),
    ("Yes.\n-- \nAnn\nThe Hill", "Yes."),
    ("A list:\n--\nnot a signature", None),
    ("Text\n-- \n" + "a long text\n" * 20, None),
    (
        f"Yes.\n\n{'_' * 32}\nFrom: Hermes <h@example.org>\nSent: Thursday, 10:00\nTo: Ann\nSubject: Milk\n\nWhich?",
        "Yes.",
    ),
    ("Yes.\n-----Original Message-----\nFrom: Hermes\nSent: Thursday\n\nShall I?\n-- \nHermes", "Yes."),
    ("Ja.\n-----Ursprüngliche Nachricht-----\n\nVon: Hermes\nGesendet: Donnerstag\n\nSoll ich?", "Ja."),
    (f"A form:\n{'_' * 20}\nName: Ann\nFrom: Friday\nTo: Sunday", None),
    ("A table:\n____________________\nOne row\nTotal: 3", None),
    ("Two parts:\n----- Part 1 -----\nNote: this is long\nand goes on", None),
    (f"{'_' * 32}\nFrom: Hermes\nSent: Thursday\n\nAll of it is history.", None),
]


@pytest.mark.parametrize(("text", "kept"), QUOTES)
def test_only_what_is_surely_history_or_a_signature_is_cut(text: str, kept: str | None) -> None:
    assert said(plain(text.replace("\n", "\r\n"))) == (kept or text.strip())


def test_the_plain_version_is_read_or_else_the_text_of_the_html() -> None:
    mail = EmailMessage()
    mail.set_content("The plain one")
    mail.add_alternative("<p>The other one</p>", subtype="html")
    mail.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="a, [b]\u202e.pdf")
    mail.add_attachment("secret text", filename="notes.txt")
    mail.add_attachment(email.message_from_string("Subject: x\n\nx"))
    assert said(bytes(mail)) == (
        "The plain one\n\n[attached, not read: a b .pdf (application/pdf), notes.txt (text/plain), "
        "a mail (message/rfc822)]"
    )
    empty = EmailMessage()
    empty.set_content(" \n")
    empty.add_alternative("<p>The other one</p>", subtype="html")
    assert said(bytes(empty)) == "The other one"


HTML = [
    ("<p>One</p><p>Two<br>Three</p>", "One\n\nTwo\nThree"),
    ("<div>a</div><div>b &amp; c&nbsp;d</div>", "a\nb & c d"),
    ("<style>p{}</style><script>x</script><title>t</title>kept", "kept"),
    ("<head><meta><body>kept", "kept"),
    ("<ul><li>a<li>b</ul>", "- a\n- b"),
    ('<a href="https://x.org/a">here</a> <a href="javascript:x">no</a> <a href="https://x.org">https://x.org</a>',
     "here <https://x.org/a> no https://x.org"),
    ("<pre>a\n  b</pre>", "a\n  b"),
    (f"Yes.<div>{ATTRIBUTION.replace('<', '&lt;')}</div><blockquote>Shall<br>I?</blockquote>",
     f"Yes.\n{ATTRIBUTION}\n\n> Shall\n> I?"),
    ("a < b <b>c</b> &lt;script&gt; </blockquote></pre></style>d", "a < b c <script>\n\nd"),
]  # fmt: skip


@pytest.mark.parametrize(("html", "text"), HTML)
def test_html_becomes_text(html: str, text: str) -> None:
    assert html_to_text(html) == text


def test_the_history_of_an_html_mail_is_cut() -> None:
    assert said(plain(HTML[7][0], "text/html")) == "Yes."


HOSTILE = [
    plain(b"caf\xe9", "text/plain; charset=latin-1"),
    plain(b"caf\xe9", "text/plain; charset=utf-8"),
    plain(b"caf\xe9", "text/plain; charset=no-such-charset"),
    plain(b"caf\xe9", "text/plain; charset=hex"),
    plain(b"caf\xe9", 'text/plain; charset="a\x00b"'),
    plain(b"caf\xe9", "text/plain; charset==?utf-8?q?x?="),
    plain(rb"caf\ud800\x00", "text/plain; charset=unicode_escape"),
    plain(b"caf\xff\xfe+-", "text/plain; charset=utf-7"),
    plain(b"caf==!!", "text/plain", "Content-Transfer-Encoding: base64"),
    plain(b"caf=zz=", "text/plain", "Content-Transfer-Encoding: quoted-printable"),
    plain(b"caf", "text/plain", "Content-Transfer-Encoding: \xe9"),
    plain(b"caf", "multipart/mixed"),
    plain(b"caf", "multipart/mixed; boundary=x"),
    plain(b"caf", ";;;"),
    plain(b"caf\x00\x1b[31m\xe2\x80\xae"),
    b"".join(b"Content-Type: multipart/mixed; boundary=b%d\r\n\r\n--b%d\r\n" % (n, n) for n in range(3000)),
    plain(b"<![CDATA[" * 20_000, "text/html"),
    plain(b"<!--" * 40_000, "text/html"),
    plain(b"<a " * 50_000, "text/html"),
    plain(b"a<b>" * 50_000, "text/html"),
    plain(b"<blockquote>" * 20_000 + b"x", "text/html"),
    plain(b"&" * 200_000, "text/html"),
    plain(b">\r\n" * 500_000),
]


@pytest.mark.parametrize("raw", HOSTILE, ids=range(len(HOSTILE)))
def test_no_mail_makes_the_reader_fail(raw: bytes) -> None:
    text = said(raw, "Subject")
    assert text.startswith("Subject: Subject")
    assert len(text) < 60_000
    text.encode()
    assert not set(text) & set("\x00\x1b\u202e")


def test_long_mails_are_cut_and_say_so() -> None:
    text = said(plain("word " * 100_000))
    assert len(text) < 51_000
    assert text.endswith("\n[The mail is longer; the rest was not read.]")
    assert said(plain("short"), whole=False).endswith("the rest was not read.]")


ROOT, DOMAIN = "<first@there.example>", "example.org"


def headers(**given: str) -> Headers:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items()]
    return Headers("\r\n".join([*lines, "", ""]).encode())


def test_mails_of_a_thread_have_one_key() -> None:
    first = thread_of(headers(Message_ID=ROOT), DOMAIN, "1.1")
    reply = own_id("r1-0", first, DOMAIN)
    others = (
        headers(Message_ID="<3@x>", References=f"{ROOT} {reply}", In_Reply_To=reply),
        headers(Message_ID="<3@x>", References=f"{ROOT}\r\n <2@x>", In_Reply_To="<2@x>"),
        headers(Message_ID="<3@x>", In_Reply_To=ROOT),
        headers(Message_ID="<3@x>", In_Reply_To=reply.replace("example", "EXAMPLE")),
        headers(Message_ID="<3@x>", In_Reply_To=f"Your mail of today {reply}"),
    )
    assert {thread_of(each, DOMAIN, "1.2") for each in others} == {first}
    assert thread_of(headers(Message_ID="<other@x>"), DOMAIN, "1.3") != first
    assert thread_of(headers(Message_ID="<3@x>", In_Reply_To=own_id("k", first, "other.org")), DOMAIN, "1.2") != first
    assert thread_of(headers(In_Reply_To=own_id("k", "", DOMAIN)), DOMAIN, "1.4") == ""
    assert len({thread_of(headers(Subject="x"), DOMAIN, here) for here in ("1.5", "1.6")}) == 2


@pytest.mark.parametrize(
    "id", ["<" + "a" * 5000 + "@x>", "<:%/ \t@x>", "<a b@x>", "nothing", "<\u00e4@x>", "<>", "<a@x"]
)
def test_any_message_id_gives_a_thread_that_survives_its_text(id: str) -> None:
    key = SessionKey("email", "ann@example.org", thread_of(headers(Message_ID=id, References=id), DOMAIN, "1.1"), "dm")
    assert SessionKey.parse(str(key)) == key
    assert len(message_id(headers(Message_ID=id))) <= 250


@pytest.mark.parametrize(
    ("subject", "reply"),
    [
        ("Milk", "Re: Milk"),
        ("Re: Milk", "Re: Milk"),
        ("RE: re: AW: Re[2]: Milk", "Re: Milk"),
        ("Rest: Milk", "Re: Rest: Milk"),
        (" Milk\r\nBcc: eve@evil.example\x00\x1b\u2028!", "Re: Milk Bcc: eve@evil.example !"),
        ("", "Re:"),
    ],
)
def test_a_subject_gets_one_re(subject: str, reply: str) -> None:
    assert reply_subject(subject) == reply


SUBJECTS = [
    "Re: x\r\nBcc: eve@evil.example\r\n\r\nA body",
    "Re: x\nBcc: eve@evil.example",
    "Re: x\rBcc: eve@evil.example",
    "Re: x\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029Bcc: eve@evil.example",
    "Re: =?utf-8?q?x=0D=0ABcc:_eve@evil.example?=",
    "Re: Grüße " + "äöü " * 60,
    "Re: \ud800",
    "x" * 900,
]


@pytest.mark.parametrize("subject", SUBJECTS, ids=range(len(SUBJECTS)))
def test_nothing_in_a_subject_becomes_a_header(subject: str) -> None:
    long = [f"<{'r' * 200}{n}@x>" for n in range(20)]
    raw = write(sender="h@x.org", to="a@x.org", subject=subject, id="<1@x>", references=long, text="T", files=())
    head = raw.partition(b"\r\n\r\n")[0]
    assert b"\r" not in head.replace(b"\r\n", b"")
    mail = email.message_from_bytes(raw, policy=default)
    names = ["From", "To", "Subject", "Date", "Message-ID", "In-Reply-To", "References", "Auto-Submitted"]
    assert mail.keys()[:8] == names
    assert set(mail.keys()[8:]) == {"Content-Type", "Content-Transfer-Encoding", "MIME-Version"}
    assert mail["References"].split() == long
    assert mail["In-Reply-To"] == long[-1]
    assert max(map(len, head.split(b"\r\n"))) < 998
    if "\ud800" not in subject and not subject.startswith("Re: x"):
        assert mail["Subject"].split() == subject.split()


TEXTS = [
    "Hello",
    "Grüße 🙂\n" * 50,
    "x" * 5000,
    ".\n.\n..",
    "From me\n",
    "tab\tand \x00\x1b[31m",
    "lone \ud800",
    "-- \n>x",
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_text_and_files_arrive_as_they_are(text: str, tmp_path: Path) -> None:
    picture = base64.b64decode("iVBORw0KGgo=") * 100
    (tmp_path / "Bild ä\n.png").write_bytes(picture)
    (tmp_path / "table.csv").write_text("a,b\n")
    files = [tmp_path / "Bild ä\n.png", tmp_path / "table.csv", tmp_path / "gone.txt"]
    raw = write(sender="h@x.org", to="a@x.org", subject="S", id="<1@x>", references=(), text=text, files=files)
    assert raw.isascii()
    assert max(map(len, raw.split(b"\r\n"))) < 998
    mail = email.message_from_bytes(raw, policy=default)
    body = mail.get_body(("plain",))
    assert body is not None
    shown = text.encode("utf-8", "replace").decode().replace("\x00", "").replace("\x1b", "")
    assert body.get_content().replace("\r\n", "\n") == f"{shown}\n[The file gone.txt could not be read.]\n"
    first, second = mail.iter_attachments()
    assert (first.get_content_type(), first.get_filename(), first.get_content()) == (
        "image/png",
        "Bild ä .png",
        picture,
    )
    assert (second.get_content_type(), second.get_filename()) == ("text/csv", "table.csv")


def test_a_thread_keeps_its_first_and_its_latest_ids() -> None:
    known = Thread.of(headers(References=" ".join(f"<{n}@x>" for n in range(60)), Message_ID="<last@x>"), "S")
    references = known.before("<asked@x>")
    assert (len(references), references[0], references[-2:]) == (20, "<0@x>", ("<last@x>", "<asked@x>"))
    assert known.before("<last@x>")[-1] == "<last@x>"
    assert known.before("") == known.references


COMMANDS = [
    ("/status\n\nSent from my iPhone", "/status"),
    ("/status\nSent from my iPhone", "/status"),
    (
        '/cron create "news" "0 9 * * *" "What\nis new?"\n\nSent from my iPhone',
        '/cron create "news" "0 9 * * *" "What\nis new?"',
    ),
    ("/resume taxes\n\nGesendet von Mail", "/resume taxes"),
    ("/skill-name Do this.\n\nAnd that.", "/skill-name Do this.\n\nAnd that."),
    ("/etc/hosts is broken:\n\n127.0.0.1", "/etc/hosts is broken:\n\n127.0.0.1"),
    ("/", "/"),
]


@pytest.mark.parametrize(("text", "kept"), COMMANDS)
def test_a_command_is_read_without_the_signature_of_a_phone(text: str, kept: str) -> None:
    assert said(plain(text.replace("\n", "\r\n")), "Milk") == kept
