"""E-mail: a gateway on a real Dovecot, and an SMTP server that delivers into it."""

import logging
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from email.message import EmailMessage
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from fakes.mail import ANN, AUTHORITY, BOB, DOVECOT, EVE, Dovecot, Smtp, dovecot, proxy, received, smtp_server
from fakes.processes import eventually
from fakes.wire import Start, Wire

from hermes_lab.config.gateway import EmailConfig, HttpConfig
from hermes_lab.config.home_file import load_home_config
from hermes_lab.errors import ConfigError
from hermes_lab.gateway import daemon, outbox
from hermes_lab.gateway.daemon import Gateway
from hermes_lab.gateway.platform import Outbound, PlatformError, Refused, TryLater, Undeliverable, Unsure
from hermes_lab.gateway.platforms import email_imap
from hermes_lab.gateway.platforms.email import EmailPlatform
from hermes_lab.gateway.platforms.http import HttpPlatform
from hermes_lab.gateway.store import GatewayStore
from hermes_lab.sessions import SessionKey, SessionStore

pytestmark = [
    pytest.mark.skipif(not DOVECOT.exists(), reason="Dovecot is not installed: apt-get install dovecot-imapd"),
    pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS:UserWarning"),
]
_numbers = count(1)


@pytest.fixture(scope="module")
def servers() -> Iterator[Dovecot]:
    with dovecot() as running:
        yield running


@pytest.fixture
async def smtp(servers: Dovecot) -> AsyncIterator[Smtp]:
    async with smtp_server(servers) as running:
        yield running


class Post:
    """An account of its own for the agent, and people who write to it."""

    def __init__(self, servers: Dovecot, smtp: Smtp) -> None:
        self.servers = servers
        self.smtp = smtp
        self.number = next(_numbers)
        self.agent = f"hermes{self.number}@example.org"
        self.ann, self.bob = (name.replace("@", f"{self.number}@") for name in (ANN, BOB))
        self.written = 0
        self.imap_port = servers.port

    def config(self, **changed: Any) -> EmailConfig:
        settings = {
            "address": self.agent,
            "imap_host": "127.0.0.1",
            "smtp_host": "127.0.0.1",
            "imap_port": self.imap_port,
            "smtp_port": self.smtp.port,
            "security": "none",
            "authority": AUTHORITY,
            "allow": [self.ann.replace("ann", "Ann"), self.bob],
        }
        return EmailConfig(**{**settings, **changed})

    def write(self, text: str, sender: str = "", dmarc: str = "pass", id: str = "", **headers: str) -> str:
        """Somebody writes to the agent; returns the id of the mail."""
        self.written += 1
        id = id or f"<m{self.written}.{self.number}@there.example>"
        sender = sender or self.ann
        given = {"From": sender, "To": self.agent, "Message-ID": id, "Subject": "Question", **headers}
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in given.items() if value)
        envelope = sender.rpartition("<")[2].rstrip(">")
        self.servers.deliver(self.agent, received(f"{lines}\r\n{text}\r\n".encode(), dmarc, envelope))
        return id

    async def answers(self, number: int, who: str = "", seconds: float = 25) -> list[EmailMessage]:
        """The agent's mails to somebody, once there are so many."""
        with anyio.fail_after(seconds):
            while len(found := self.servers.mails(who or self.ann)) < number:  # noqa: ASYNC110
                await anyio.sleep(0.02)
        return found

    def texts(self, who: str = "") -> list[str]:
        return [each.get_content().strip() for each in self.servers.mails(who or self.ann)]


@pytest.fixture
def post(servers: Dovecot, smtp: Smtp, monkeypatch: pytest.MonkeyPatch) -> Post:
    monkeypatch.setenv("EMAIL_PASSWORD", "secret")
    return Post(servers, smtp)


Run = Callable[..., Any]


@pytest.fixture
def run(start: Start, home: Path, post: Post, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a gateway on the account, once it is connected."""
    monkeypatch.setattr(daemon, "_FIRST_SECONDS", 0.05)
    monkeypatch.setattr(outbox, "_FIRST_SECONDS", 0.05)
    monkeypatch.setattr(email_imap, "_IDLE_SECONDS", 0.05)  # Dovecot tells of a mail after half a second

    @asynccontextmanager
    async def running(
        *more: Any, up: bool = True, sources: tuple[str, ...] = (), **changed: Any
    ) -> AsyncIterator[Gateway]:
        config = post.config(**changed)
        chosen = (
            "gateway.platforms=[email]",
            f"gateway.email={{allow: [{', '.join(config.allow)}]}}",
            *sources,
        )
        async with start(EmailPlatform(config), *more, sources=chosen) as gateway:
            if up:
                with anyio.fail_after(60):
                    while gateway._states["email"]["state"] != "up":  # noqa: ASYNC110
                        await anyio.sleep(0.01)
                    while not await at(gateway):  # noqa: ASYNC110
                        await anyio.sleep(0.01)
            yield gateway

    return running


async def at(gateway: Gateway) -> str:
    """Where the gateway goes on reading."""
    return await gateway._store.call(gateway._store.fact, "email position")


async def read(gateway: Gateway, uid: int) -> None:
    """Waits until the gateway has read the mails up to a uid."""
    with anyio.fail_after(60):
        while int((await at(gateway)).split()[1]) < uid:  # noqa: ASYNC110
            await anyio.sleep(0.02)


async def test_a_conversation_by_mail(post: Post, run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(email_imap, "_IDLE_SECONDS", 240.0)
    post.write("This was there before the agent came.")
    async with run():
        first = post.write("What is new?", Subject="News")
        (answer,) = await post.answers(1)
        assert answer.get_content().strip() == "Subject: News\n\nWhat is new?"
        assert (answer["From"], answer["To"], answer["Subject"]) == (post.agent, post.ann, "Re: News")
        assert (answer["In-Reply-To"], answer["References"]) == (first, first)
        assert answer["Auto-Submitted"] == "auto-replied"
        assert answer.get_content_charset() == "utf-8"
        assert answer["Content-Type"].content_type == "text/plain"
        reply = str(answer["Message-ID"])
        second = post.write("/status", Subject="Re: News", References=f"{first} {reply}", In_Reply_To=reply)
        (_, answer) = await post.answers(2)
        assert "1 turn" in answer.get_content()
        assert answer["Subject"] == "Re: News"
        assert answer["References"].split() == [first, reply, second]
        post.write("Another matter", Subject="")
        post.write("Only In-Reply-To", Subject="Re: News", In_Reply_To=reply)
        await post.answers(4)
    lengths = sorted(each.length for each in SessionStore(home / "sessions.db").latest())
    assert lengths == [3, 5]  # with the prompt: one turn, and two
    assert post.smtp.taken[0][:2] == (post.agent, (post.ann,))


async def test_a_mail_is_one_turn_however_often_it_arrives(post: Post, run: Run) -> None:
    async with run() as gateway:
        id = post.write("Once")
        post.write("Once", id=id)
        await read(gateway, 2)
        post.write("Twice")
        await post.answers(2)
    async with run():
        post.write("Thrice")
        await post.answers(3)
        await anyio.sleep(0.3)
        # Two conversations are answered in any order.
        assert sorted(text.rpartition("\n")[2] for text in post.texts()) == ["Once", "Thrice", "Twice"]


async def test_mails_are_known_by_their_ids_when_the_server_numbers_them_anew(post: Post, run: Run) -> None:
    async with run() as gateway:
        for number in range(3):
            post.write(f"Before {number}")
        await post.answers(3)
        before = (await at(gateway)).split()[0]
    post.servers.renumber(post.agent)
    await anyio.sleep(1.1)  # the new validity is the time in seconds
    post.write("After")
    async with run() as gateway:
        await post.answers(4)
        assert (await at(gateway)).split()[0] != before
        await anyio.sleep(0.2)
        assert len(post.texts()) == 4
        assert "After" in post.texts()[-1]


async def test_mails_that_arrive_while_it_restarts_are_answered_once_each(post: Post, run: Run) -> None:
    wanted = 20

    async def people() -> None:
        for number in range(wanted):
            post.write(f"Mail {number}", sender=post.ann if number % 2 else post.bob, Subject="")
            await anyio.sleep(0.05)

    async with run():
        pass
    async with anyio.create_task_group() as group:
        group.start_soon(people)
        for pause in (0.1, 0.3, 0.2, 0.4):
            async with run(up=False):
                await anyio.sleep(pause)
    for number in (wanted, wanted + 1):
        post.write(f"Mail {number}", sender=post.ann if number % 2 else post.bob, Subject="")
    wanted += 2
    async with run():
        await post.answers(wanted // 2, post.bob)
        await post.answers(wanted // 2)
        await anyio.sleep(0.2)
    assert sorted(post.texts() + post.texts(post.bob)) == sorted(f"Mail {number}" for number in range(wanted))
    ids = [each["Message-ID"] for who in (post.ann, post.bob) for each in post.servers.mails(who)]
    assert len(set(ids)) == wanted


async def test_forged_and_automatic_mails_and_its_own_start_no_turn(
    post: Post, run: Run, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with run() as gateway:
        post.write("x", dmarc="fail")
        post.write("x", dmarc="none")
        post.write("x", sender=f'"{post.ann}" <{EVE}>', dmarc="fail")
        post.write("x", From=f"{post.ann}, {EVE}")
        post.write("x", Sender=post.ann, From=EVE, Reply_To=post.ann)
        post.write("x", sender=EVE, From=post.ann)
        post.write("x", Auto_Submitted="auto-replied")
        post.write("x", List_Id="<all.example.org>")
        post.write("x", Precedence="bulk")
        post.write("x", sender=post.agent)
        forged = f"From: {post.ann}\r\nAuthentication-Results: {AUTHORITY}; dmarc=pass header.from=example.org\r\n\r\nx"
        post.servers.deliver(post.agent, received(forged.encode(), "fail", post.ann))
        post.servers.deliver(post.agent, forged.replace("From:", "X: x\rFrom:").encode())
        post.servers.deliver(post.agent, f"From: {post.ann}\r\n\r\nx".encode())
        post.servers.deliver(post.agent, f"Authentication-Results: mx.evil; none\r\nFrom: {post.ann}\r\n\r\nx".encode())
        post.servers.deliver(post.agent, b"")
        post.servers.deliver(post.agent, b"\xff\x00" * 1000)
        post.write("A last one")
        await post.answers(1)
        await read(gateway, 17)
        assert GatewayStore(home).counts()["inbox"] == {"done": 1}
        assert len(post.smtp.taken) == 1
    told = [each.getMessage() for each in caplog.records if "ignored" in each.getMessage()]
    assert told == ["email: a mail is ignored: it has no Authentication-Results that can be read"]


async def test_the_agents_answer_to_another_agent_ends_there(post: Post, run: Run) -> None:
    async with run() as gateway:
        post.write("Hello")
        (answer,) = await post.answers(1)
        del answer["From"]
        answer["From"] = post.bob
        post.servers.deliver(post.agent, received(answer.as_bytes().replace(b"\n", b"\r\n"), "pass", post.bob))
        await read(gateway, 2)
        assert len(post.smtp.taken) == 1


async def test_a_stranger_gets_a_code_if_the_mail_is_authentic(post: Post, run: Run, home: Path) -> None:
    eve = f"eve{post.number}@evil.example"
    async with run() as gateway:
        post.write("Let me in", sender=eve, dmarc="fail", Subject="Re: Hello")
        id = post.write("Let me in", sender=eve, Subject="Re: Hello")
        post.write("Let me in, please", sender=eve)
        (answer,) = await post.answers(1, eve)
        assert re.search(r"gateway pair \w{8}", " ".join(answer.get_content().split()))
        assert (answer["Subject"], answer["In-Reply-To"]) == ("Re: Hello", id)
        await read(gateway, 3)
        assert len(post.smtp.taken) == 1
        GatewayStore(home).allow("email", eve)
        post.write("And now?", sender=f"Eve <{eve.upper()}>")
        assert "And now?" in (await post.answers(2, eve))[1].get_content()


async def test_without_authentication_all_mails_count_as_their_senders(post: Post, run: Run) -> None:
    async with run(authenticated="any"):
        post.servers.deliver(post.agent, f"From: {post.ann}\r\nTo: x\r\n\r\nHello".encode())
        assert (await post.answers(1))[0].get_content().strip() == "Hello"


async def test_it_writes_to_people_of_its_own_accord_and_their_answers_find_the_chat(post: Post, run: Run) -> None:
    async with run() as gateway:
        await gateway.post("notice", SessionKey("email", post.ann, chat_type="dm"), "The work is done.")
        (mail,) = await post.answers(1)
        assert (mail["Subject"], mail["In-Reply-To"]) == ("A message from your agent", None)
        id = str(mail["Message-ID"])
        post.write("Thanks", In_Reply_To=id, References=id, Subject=f"Re: {mail['Subject']}")
        await post.answers(2)
        (row,) = SessionStore(gateway._home / "sessions.db").latest()
        assert str(row.key) == f"email:dm:{post.ann}"


async def test_files_are_attached(post: Post, run: Run, tmp_path: Path) -> None:
    (tmp_path / "curve.png").write_bytes(b"\x89PNG")
    async with connected(post) as connection:
        await connection.send(Outbound("k", post.ann, "", "See the picture.", files=(tmp_path / "curve.png",)))
    (mail,) = await post.answers(1)
    (part,) = mail.iter_attachments()
    assert (part.get_content_type(), part.get_content()) == ("image/png", b"\x89PNG")


class Facts:
    """What `Services` stores."""

    def __init__(self) -> None:
        self.stored: dict[str, str] = {}
        self.commands = ()

    async def fact(self, name: str) -> str:
        return self.stored.get(name, "")

    async def set_fact(self, name: str, value: str) -> None:
        self.stored[name] = value

    async def post(self, name: str, place: SessionKey, text: str) -> None:
        raise NotImplementedError


@asynccontextmanager
async def connected(post: Post, **changed: Any) -> AsyncIterator[Any]:
    async with EmailPlatform(post.config(**changed)).connect(Facts()) as connection:
        yield connection


FAILURES: list[tuple[str, str, type[Exception]]] = [
    ("RCPT", "550 5.1.1 <ann@example.org> unknown", Undeliverable),
    ("RCPT", "553 5.1.3 bad address", Undeliverable),
    ("RCPT", "450 4.2.1 greylisted", PlatformError),
    ("RCPT", "421 4.7.0 too many connections", TryLater),
    ("MAIL", "452 4.3.1 no room", PlatformError),
    ("MAIL", "552 5.3.4 too large", Undeliverable),
    ("MAIL", "553 5.7.1 not your address", Refused),
    ("DATA", "554 5.7.1 spam", Undeliverable),
    ("DATA", "451 4.3.0 later", PlatformError),
]


@pytest.mark.parametrize(("step", "answer", "kind"), FAILURES)
async def test_what_the_server_refuses(post: Post, step: str, answer: str, kind: type[Exception]) -> None:
    async with connected(post) as connection:
        post.smtp.answers.append((step, answer))
        with pytest.raises(kind) as caught:
            await connection.send(Outbound("k", post.ann, "", "Hello"))
        assert type(caught.value) is kind
        assert answer[:3] in str(caught.value)
        assert ANN not in str(caught.value)
        await connection.send(Outbound("k", post.ann, "", "Hello"))
        assert post.texts() == ["Hello"]


async def test_a_mail_without_an_answer_may_have_arrived_and_is_sent_under_the_same_id(post: Post) -> None:
    async with connected(post) as connection:
        post.smtp.cut = True
        with pytest.raises(Unsure):
            await connection.send(Outbound("k", post.ann, "t", "Hello"))
        id = await connection.send(Outbound("k", post.ann, "t", "Hello", again=True))
        assert [each["Message-ID"] for each in await post.answers(2)] == [id, id]
        assert await connection.send(Outbound("other", post.ann, "t", "Hello")) != id
        with pytest.raises(Undeliverable):
            await connection.send(Outbound("k", "ann@example.org\r\nRCPT TO:<eve@x>", "", "Hello"))
    post.smtp.port = 1
    with pytest.raises(PlatformError) as caught:
        async with connected(post):
            pass
    assert type(caught.value) is PlatformError


async def test_a_server_that_is_away_delays_answers_and_loses_none(post: Post, run: Run) -> None:
    async with run():
        post.smtp.answers += [("DATA", "451 later"), ("RCPT", "450 later")]
        post.write("Hello", Subject="")
        await post.answers(1)
    assert post.texts() == ["Hello"]


async def test_a_wrong_password_leaves_the_other_platforms_alone(
    post: Post, run: Run, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMAIL_PASSWORD", "a wrong one")
    monkeypatch.setenv("HERMES_HTTP_KEY", "right")
    async with run(wire, HttpPlatform(HttpConfig(port=0)), up=False) as gateway:
        with anyio.fail_after(60):
            while gateway._states["email"]["state"] != "down":  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert gateway._states["email"]["why"] == "SMTP: wrong user or password (535)"
        await wire.say("Hello")
        assert await wire.replies(1) == ["Hello"]
        assert gateway._states["http"]["state"] == "up"
    monkeypatch.delenv("EMAIL_PASSWORD")
    with pytest.raises(Refused, match=r"^EMAIL_PASSWORD is not set"):
        async with connected(post):
            pass


async def test_a_wrong_imap_password_is_refused(post: Post) -> None:
    server = email_imap.Server("127.0.0.1", post.servers.port, post.agent, 'wr"on\\g', None, False)
    with pytest.RaisesGroup(pytest.RaisesExc(Refused, match="^IMAP: wrong user or password$")):
        async with email_imap.open_inbox(server):
            pass


async def test_a_cut_or_silent_connection_is_noticed_and_made_again(
    post: Post, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with proxy(post.servers.port) as between:
        post.imap_port = between.port
        monkeypatch.setattr(email_imap, "_IDLE_SECONDS", 240.0)
        async with run():
            between.cut()
            post.write("After a cut", Subject="")
            await post.answers(1)
        assert between.accepted >= 2
        monkeypatch.setattr(email_imap, "_IDLE_SECONDS", 0.2)
        monkeypatch.setattr(email_imap, "_SECONDS", 0.5)
        async with run():
            await anyio.sleep(0.5)  # an idle connection goes on
            before = between.accepted
            between.hold = True
            with anyio.fail_after(60):
                while between.accepted == before:  # noqa: ASYNC110
                    await anyio.sleep(0.02)
            between.hold = False
            between.cut()
            post.write("After a silence", Subject="")
            await post.answers(2)
    assert post.texts() == ["After a cut", "After a silence"]


@pytest.mark.parametrize("change", ["no IDLE", "IDLE is refused"])
async def test_without_idle_it_polls(post: Post, run: Run, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    monkeypatch.setattr(email_imap, "_POLL_SECONDS", 0.1)
    asked: list[bytes] = []
    async with proxy(post.servers.port) as between:
        if change == "no IDLE":
            between.change = lambda data: data.replace(b" IDLE", b"")
        else:
            between.ask = lambda data: asked.append(data) or data.replace(b" IDLE", b" IDLED")  # type: ignore[func-returns-value]
        post.imap_port = between.port
        async with run():
            for number in range(2):
                post.write(f"{number}", Subject="")
                await post.answers(number + 1)
        assert between.accepted == 1
    assert b"".join(asked).count(b" IDLE") == (change == "IDLE is refused")
    assert post.texts() == ["0", "1"]


@pytest.mark.parametrize("security", ["tls", "starttls"])
async def test_connections_are_encrypted_and_certificates_checked(
    post: Post, servers: Dovecot, security: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(servers.cert, servers.cert.with_name("key.pem"))
    port = servers.tls_port if security == "tls" else servers.port
    changed = {"security": security, "imap_port": port}
    async with smtp_server(servers, context, at_once=security == "tls") as post.smtp:
        with pytest.raises(PlatformError, match="certificate is not valid"):
            async with connected(post, **changed):
                pass
        monkeypatch.setenv("SSL_CERT_FILE", str(servers.cert))
        async with connected(post, **changed) as connection:
            assert connection._inbox._imap.protocol.transport.get_extra_info("ssl_object")
            await connection.send(Outbound("k", post.ann, "", "Hello"))
    assert post.texts() == ["Hello"]
    async with smtp_server(servers) as post.smtp:  # it offers no encryption
        with pytest.raises(PlatformError):
            async with connected(post, **changed):
                pass
    assert len(post.texts()) == 1


async def test_starttls_that_is_not_offered_is_refused_before_the_password_is_sent(post: Post) -> None:
    async with proxy(post.servers.port) as between:
        seen = []
        between.change = lambda data: seen.append(data) or data.replace(b"OK Begin TLS", b"NO no TLS now")  # type: ignore[func-returns-value]
        context = ssl.create_default_context()
        server = email_imap.Server("127.0.0.1", between.port, post.agent, "secret", context, False)
        with pytest.RaisesGroup(pytest.RaisesExc(Refused, match="STARTTLS")):
            async with email_imap.open_inbox(server):
                pass
        assert b"Logged in" not in b"".join(seen)


async def test_an_answer_that_makes_no_sense_does_not_put_the_password_into_a_log(
    post: Post, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxy(post.servers.port) as between:
        between.change = lambda data: re.sub(rb"^[A-Z]+1 OK", b"XYZ OK", data, flags=re.MULTILINE)
        server = email_imap.Server("127.0.0.1", between.port, post.agent, "secret", None, False)
        with pytest.RaisesGroup(PlatformError):
            async with email_imap.open_inbox(server):
                pass
    assert "secret" not in caplog.text


async def test_logs_hold_nothing_of_mails_people_or_passwords(
    post: Post, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with run():
        post.write("A private text", Subject="A private subject", From=f"Private Person <{post.ann}>")
        post.write("A private text", sender=f"Private Person <{EVE}>", Subject="A private subject", dmarc="fail")
        post.smtp.answers += [("RCPT", f"550 {post.ann} is unknown")]
        post.write("Another private text", Subject="A private subject")
        await post.answers(1)
        await eventually(lambda: "a mail is ignored" in caplog.text and "cannot be sent" in caplog.text)
    logged = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("mail."))
    for private in ("rivate", post.ann, EVE, "secret", "there.example"):
        assert private not in logged, private


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"imap_host": "imap.example.org"}, "none would send the password unencrypted to gateway.email.imap_host"),
        ({"smtp_host": "10.0.0.1"}, "gateway.email.smtp_host"),
        ({"smtp_host": "127.0.0.1.example.org"}, "gateway.email.smtp_host"),
        ({"address": ""}, "gateway.email.address: is empty"),
        ({"imap_host": ""}, "gateway.email.imap_host: is empty"),
        ({"address": "Hermes <h@x.org>"}, "gateway.email.address: give a plain address"),
    ],
)
async def test_settings_that_are_missing_or_unsafe_are_refused(post: Post, changed: dict[str, str], told: str) -> None:
    for host in ("localhost", "127.0.0.1", "::1"):
        EmailPlatform(post.config(imap_host=host))
    with pytest.raises(ConfigError, match=re.escape(told)):
        EmailPlatform(post.config(**changed))


def test_addresses_that_may_write_are_plain(home: Path) -> None:
    config = load_home_config(home, ("gateway.email.allow=[Ann@Example.ORG]",))
    assert config.gateway.email.allow == ("ann@example.org",)
    with pytest.raises(ConfigError, match=r"gateway\.email\.allow.*is not a plain address"):
        load_home_config(home, ("gateway.email.allow=['Ann']",))
