"""Whose a mail is: what is forged, automatic or unclear starts no turn."""

import time
from contextlib import suppress

import pytest
from fakes.mail import AGENT, AUTHORITY

from hermes_lab.gateway.platforms.email_senders import Headers, Ignored, Trust, sender_of

STRICT, LENIENT = Trust(AGENT, AUTHORITY), Trust(AGENT, "")
ANN = "From: Ann <ann@example.org>"
PASS = f"Authentication-Results: {AUTHORITY}; dmarc=pass header.from=example.org"


def read(*lines: str, trust: Trust = STRICT) -> tuple[str, str]:
    return sender_of(Headers("\r\n".join([*lines, "", "Hello\r\n"]).encode("utf-8", "surrogateescape")), trust)


@pytest.mark.parametrize(
    "given",
    [
        "ann@example.org",
        "<ann@example.org>",
        "Ann <ann@example.org>",
        "ANN@Example.ORG",
        '"Ann, of \\"the\\" Hill" <ann@example.org>',
        '"eve@evil.example" <ann@example.org>',
        "=?utf-8?q?Ann=C3=A4?= <ann@example.org>",
        "Ännchen <ann@example.org>",
        "ann@example.org (Ann)",
        "Ann\r\n <ann@example.org>",
        "Ann Of The Hill <ann@example.org>",
    ],
)
def test_a_plain_from_address_is_the_sender(given: str) -> None:
    assert read(PASS, f"From: {given}")[0] == "ann@example.org"


def test_the_shown_name_is_decoded_and_on_one_line() -> None:
    assert read(PASS, "From: =?utf-8?q?=C3=84nne=0D=0ABcc=3A_x?= <ann@example.org>")[1] == "Änne Bcc: x"
    assert read(PASS, "From: =?no-such?b?!!!?= <ann@example.org>")[0] == "ann@example.org"


FORGED = {
    "a name that is the address": ["From: ann@example.org <eve@evil.example>"],
    "a quoted name that is the address": ['From: "ann@example.org" <eve@evil.example>'],
    "the name and a bracket": ['From: "Ann <ann@example.org>" <eve@evil.example>'],
    "two From headers": ["From: eve@evil.example", "From: ann@example.org"],
    "two From headers, the other way round": ["From: ann@example.org", "From: eve@evil.example"],
    "the same From twice": ["From: ann@example.org", "From: ann@example.org"],
    "two addresses": ["From: ann@example.org, eve@evil.example"],
    "two addresses in brackets": ["From: <ann@example.org> <eve@evil.example>"],
    "an encoded name": ["From: =?utf-8?q?ann=40example.org?= <eve@evil.example>"],
    "an encoded address": ["From: =?utf-8?q?ann=40example=2Eorg?="],
    "an encoded address in brackets": ["From: <=?utf-8?q?ann=40example=2Eorg?=>"],
    "an encoded local part": ["From: =?utf-8?q?ann?=@example.org"],
    "a quoted local part": ['From: "ann"@example.org'],
    "a quoted local part with the address": ['From: "ann@example.org"@evil.example'],
    "a quoted local part that ends early": ['From: "ann@example.org>"@evil.example'],
    "a comment with the address": ["From: eve@evil.example (ann@example.org)"],
    "a comment in the address": ["From: ann@example.org(.evil.example)"],
    "a comment in front": ["From: (x) ann@example.org"],
    "a source route": ["From: <@evil.example:ann@example.org>"],
    "a group": ["From: friends: ann@example.org;"],
    "an empty bracket": ["From: ann@example.org <>"],
    "only Sender": ["Sender: ann@example.org"],
    "Sender": ["From: eve@evil.example", "Sender: ann@example.org"],
    "Reply-To": ["From: eve@evil.example", "Reply-To: ann@example.org"],
    "Resent-From": ["From: eve@evil.example", "Resent-From: ann@example.org"],
    "X-From": ["From: eve@evil.example", "X-From: ann@example.org", "Envelope-From: ann@example.org"],
    "a Cyrillic letter": ["From: \u0430nn@example.org"],
    "a Cyrillic letter in the domain": ["From: ann@ex\u0430mple.org"],
    "punycode": ["From: ann@xn--exmple-4nf.org"],
    "a full-width letter": ["From: \uff41nn@example.org"],
    "an ideographic full stop": ["From: ann@example\u3002org"],
    "a full-width at": ["From: ann\uff20example.org"],
    "a letter that is lower-cased to ASCII": ["From: \u212aann@example.org"],
    "a zero-width space": ["From: ann\u200b@example.org"],
    "a dot at the end": ["From: ann@example.org."],
    "a domain above": ["From: ann@example.org.evil.example"],
    "a domain below": ["From: ann@mail.example.org"],
    "a plus address": ["From: ann+eve@example.org"],
    "dots": ["From: a.nn@example.org"],
    "two ats": ["From: ann@evil.example@example.org"],
    "a null": ["From: ann@example.org\x00eve"],
    "blanks": ["From: ann @example.org"],
    "a From with a blank before its colon": ["From : ann@example.org", "From: eve@evil.example"],
    "a header behind a bare carriage return": ["Subject: x\rFrom: ann@example.org\r\r", "From: eve@example.org"],
    "a header behind a bare line feed": ["Subject: x\nFrom: ann@example.org\n\n", "From: eve@example.org"],
    "a line that is none": ["From: ann@example.org", "no header", "From: eve@evil.example"],
    "bytes that are no text": ["From: ann@example.org\udcff"],
    "no sender": ["Subject: Hello"],
    "an empty From": ["From:"],
}


@pytest.mark.parametrize("lines", FORGED.values(), ids=FORGED)
def test_a_forged_sender_is_never_ann(lines: list[str]) -> None:
    domains = ("example.org", "evil.example", "mail.example.org", "example.org.evil.example", "xn--exmple-4nf.org")
    for domain in domains:
        results = f"Authentication-Results: {AUTHORITY}; dmarc=pass header.from={domain}"
        # Malformed lines may be above, too, where the receiving server left them.
        for headers in ([results, *lines], [*lines, results]):
            for trust in (STRICT, LENIENT):
                with suppress(Ignored):
                    assert read(*headers, trust=trust)[0] != "ann@example.org"


BELIEVED = [
    f"{AUTHORITY}; dmarc=pass header.from=example.org",
    f"{AUTHORITY} 1; spf=fail smtp.mailfrom=x@evil.example; dmarc = pass (p=REJECT sp=NONE) header.from = Example.ORG",
    f"{AUTHORITY};\r\n\tdkim=pass header.d=example.org;\r\n\tdmarc/1=pass header.from=example.org",
    f"a.{AUTHORITY}; dmarc=pass (it\\)s; fine) header.from=example.org; spf=none",
    f'{AUTHORITY}; spf=fail smtp.mailfrom="x; dmarc=fail "@evil.example; dmarc=pass header.from=example.org',
]
NOT_BELIEVED = {
    "none": None,
    "empty": "",
    "no results": f"{AUTHORITY}; none",
    "only spf and dkim": f"{AUTHORITY}; spf=pass smtp.mailfrom=example.org; dkim=pass header.d=example.org",
    "fail": f"{AUTHORITY}; dmarc=fail header.from=example.org",
    "none as the result": f"{AUTHORITY}; dmarc=none header.from=example.org",
    "pass as a prefix": f"{AUTHORITY}; dmarc=passed header.from=example.org",
    "another server": "mx.evil.example; dmarc=pass header.from=example.org",
    "a name that ends like it": f"evil{AUTHORITY}; dmarc=pass header.from=example.org",
    "a name that begins like it": f"{AUTHORITY}.evil.example; dmarc=pass header.from=example.org",
    "the name in a comment": f"mx.evil.example ({AUTHORITY}); dmarc=pass header.from=example.org",
    "no name": "dmarc=pass header.from=example.org",
    "another domain": f"{AUTHORITY}; dmarc=pass header.from=evil.example",
    "no domain": f"{AUTHORITY}; dmarc=pass",
    "two domains": f"{AUTHORITY}; dmarc=pass header.from=evil.example header.from=example.org",
    "fail and pass": f"{AUTHORITY}; dmarc=fail header.from=example.org; dmarc=pass header.from=example.org",
    "pass in a quoted sender": f'{AUTHORITY}; spf=pass smtp.mailfrom="; dmarc=pass header.from=example.org; "@evil.org',
    "pass in a comment": f"{AUTHORITY}; spf=pass (sender; dmarc=pass header.from=example.org)",
    "pass in a comment in a comment": f"{AUTHORITY}; spf=pass (a (b) ; dmarc=pass header.from=example.org)",
    "a comment that does not end": f"{AUTHORITY}; dmarc=pass header.from=example.org (",
    "a comment that does not begin": f"{AUTHORITY}; dmarc=pass ) header.from=example.org",
    "a string that does not end": f'{AUTHORITY}; dmarc=pass header.from=example.org "',
    "the domain in a comment": f"{AUTHORITY}; dmarc=pass (header.from=example.org)",
    "another method": f"{AUTHORITY}; x-dmarc=pass header.from=example.org",
}


@pytest.mark.parametrize("value", BELIEVED)
def test_the_receiving_server_is_believed(value: str) -> None:
    assert read(f"Authentication-Results: {value}", ANN)[0] == "ann@example.org"


@pytest.mark.parametrize("value", NOT_BELIEVED.values(), ids=NOT_BELIEVED)
def test_what_the_receiving_server_does_not_say_is_not_believed(value: str | None) -> None:
    lines = [] if value is None else [f"Authentication-Results: {value}"]
    with pytest.raises(Ignored):
        read(*lines, ANN)
    assert read(*lines, ANN, trust=LENIENT)[0] == "ann@example.org"


@pytest.mark.parametrize(
    "above",
    [
        f"Authentication-Results: {AUTHORITY}; dmarc=fail header.from=example.org",
        f"Authentication-Results: {AUTHORITY}; spf=pass smtp.mailfrom=eve@evil.example",
        f"Authentication-Results: {AUTHORITY}; none",
        "Authentication-Results: mx.other.example; dmarc=fail header.from=example.org",
    ],
)
def test_only_the_topmost_results_count(above: str) -> None:
    for between in ([], [f"Received: from evil by {AUTHORITY}; now"]):
        with pytest.raises(Ignored):
            read(above, *between, PASS, ANN)
    for name in ("ARC-Authentication-Results", "X-Authentication-Results", "Authentication-Results-Original"):
        with pytest.raises(Ignored):
            read(PASS.replace("Authentication-Results", name), ANN)
    assert read(PASS, above, ANN)[0] == "ann@example.org"


def test_the_reason_names_the_server_but_nothing_that_it_could_hide_in() -> None:
    with pytest.raises(Ignored, match=r"is of a\?b, not of gateway.email.authority=mx.example.org$"):
        read("Authentication-Results: a\u202eb; dmarc=pass header.from=example.org", ANN)


AUTOMATIC = [
    "Auto-Submitted: auto-replied",
    "Auto-Submitted: auto-generated; owner-email=x@y",
    "Auto-Submitted: Auto-Notified (vacation)",
    "Precedence: bulk",
    "Precedence: LIST",
    "Precedence: junk",
    "Precedence: auto_reply",
    "List-Id: <friends.example.org>",
    "List-Unsubscribe: <https://example.org/u>",
    "Return-Path: <>",
    "X-Autoreply: yes",
    "X-Autorespond: yes",
    "Content-Type: multipart/report; report-type=delivery-status; boundary=x",
    "Content-Type: Multipart/Report; report-type=disposition-notification; boundary=x",
]


@pytest.mark.parametrize("line", AUTOMATIC)
def test_what_no_person_wrote_starts_no_turn(line: str) -> None:
    for trust in (STRICT, LENIENT):
        with pytest.raises(Ignored, match="automatically"):
            read(PASS, ANN, line, trust=trust)


def test_ordinary_headers_of_a_person_do_not_look_automatic() -> None:
    lines = ("Auto-Submitted: no", "Precedence: first-class", "Return-Path: <ann@example.org>", "X-Mailer: x")
    assert read(PASS, ANN, *lines)[0] == "ann@example.org"


@pytest.mark.parametrize("given", [AGENT, f"Ann <{AGENT.upper()}>", "MAILER-DAEMON@example.org"])
def test_the_agents_own_mails_and_bounces_start_no_turn(given: str) -> None:
    with pytest.raises(Ignored):
        read(PASS, f"From: {given}")


@pytest.mark.parametrize("value", ["a" * 19_000 + "(", "a " * 9_000 + "(", '"' * 9_999, "a@" * 9_000, "a.a-" * 4_500])
def test_hostile_headers_take_no_time(value: str) -> None:
    started = time.process_time()
    for name in ("From", "Authentication-Results"):
        with pytest.raises(Ignored):
            read(f"{name}: {value}", ANN)
    # Exponential matching would take for ever.
    assert time.process_time() - started < 60
