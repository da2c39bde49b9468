"""Mail servers for tests: a real Dovecot (IMAP), and an SMTP server that delivers into its mailboxes.

Dovecot lets in every user with the password `secret`. Mails are delivered as a mail server does: with `Return-Path`,
`Authentication-Results` and `Received` above what was sent.
"""

import asyncio
import email
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import anyio
from aiosmtpd.controller import UnthreadedController
from aiosmtpd.smtp import AuthResult, LoginPassword

DOVECOT = Path("/usr/sbin/dovecot")
AUTHORITY = "mx.example.org"
AGENT, ANN, BOB, EVE = "hermes@example.org", "ann@example.org", "bob@friends.example", "eve@evil.example"

_CONFIG = """\
base_dir = {folder}/base
state_dir = {folder}/state
log_path = {folder}/dovecot.log
protocols = imap
listen = 127.0.0.1
ssl = yes
ssl_cert = <{folder}/cert.pem
ssl_key = <{folder}/key.pem
disable_plaintext_auth = no
auth_failure_delay = 0
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {user}
first_valid_uid = 1
mail_location = maildir:{folder}/mail/%u
mail_max_userip_connections = 100
passdb {{
  driver = static
  args = password=secret
}}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/mail/%u
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
  }}
}}
"""


class Dovecot:
    """A running Dovecot. `cert` is the certificate that it shows."""

    def __init__(self, folder: Path, port: int, tls_port: int, uid: int, gid: int) -> None:
        self.port = port
        self.tls_port = tls_port
        self.cert = folder / "cert.pem"
        self._mail = folder / "mail"
        self._ids = uid, gid
        self._number = 0

    def deliver(self, user: str, mail: bytes) -> None:
        """Puts a mail into an inbox."""
        inbox = self._mail / user
        for folder in (inbox, inbox / "tmp", inbox / "new", inbox / "cur"):
            if not folder.exists():
                folder.mkdir()
                os.chown(folder, *self._ids)
        self._number += 1
        name = f"{time.time():.6f}.{self._number}.test"
        (inbox / "tmp" / name).write_bytes(mail)
        os.chown(inbox / "tmp" / name, *self._ids)
        (inbox / "tmp" / name).rename(inbox / "new" / name)

    def mails(self, user: str) -> list[EmailMessage]:
        """The mails of an inbox, in the order of their arrival."""
        paths = [path for folder in ("new", "cur") for path in (self._mail / user / folder).glob("*")]
        found = sorted(paths, key=lambda path: tuple(map(float, path.name.split(".test")[0].rsplit(".", 1))))
        return [email.message_from_bytes(path.read_bytes().replace(b"\r\n", b"\n"), policy=default) for path in found]  # type: ignore[misc]

    def renumber(self, user: str) -> None:
        """Loses the numbers of an inbox's mails, as a server does whose index is broken. All get new ones."""
        for path in self._mail.joinpath(user).glob("dovecot*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def dovecot() -> Iterator[Dovecot]:
    """Runs a Dovecot. It refuses to run as root, and is run as nobody instead."""
    folder = Path(tempfile.mkdtemp(prefix="dovecot-", dir="/tmp"))
    root = os.getuid() == 0
    uid, gid = (65534, 65534) if root else (os.getuid(), os.getgid())
    ports = _free(2)
    user, group = (subprocess.check_output(["id", f"-{each}n", f"{uid}"], text=True).strip() for each in "ug")
    (folder / "dovecot.conf").write_text(
        _CONFIG.format(folder=folder, user=user, group=group, uid=uid, gid=gid, port=ports[0], tls_port=ports[1])
    )
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*make.split(), *names], cwd=folder, check=True, capture_output=True)
    for name in ("mail", "base", "state"):
        (folder / name).mkdir()
    for path in (folder, *folder.iterdir()):
        os.chown(path, uid, gid)
    as_user: dict[str, Any] = {"user": uid, "group": gid, "extra_groups": []} if root else {}
    process = subprocess.Popen([DOVECOT, "-F", "-c", folder / "dovecot.conf"], **as_user)
    try:
        _await_greeting(ports[0], process, folder / "dovecot.log")
        yield Dovecot(folder, *ports, uid, gid)
    finally:
        process.terminate()
        process.wait(20)
        shutil.rmtree(folder)


def _free(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _await_greeting(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(400):
        try:
            with socket.create_connection(("127.0.0.1", port), 5) as connection:
                if connection.recv(100).startswith(b"* OK"):
                    return
        except OSError:
            time.sleep(0.05)
        if process.poll() is not None:
            break
    raise RuntimeError(f"Dovecot did not start: {log.read_text() if log.exists() else process.returncode}")


class Smtp:
    """An SMTP server of `example.org`. `answers` are given to the next mails instead of taking them: at `RCPT`, `MAIL`
    or `DATA`; `cut` takes the next mail and cuts the connection without an answer."""

    port = 0

    def __init__(self, dovecot: Dovecot) -> None:
        self.answers: list[tuple[str, str]] = []
        self.cut = False
        self.taken: list[tuple[str, Sequence[str], bytes]] = []
        self._dovecot = dovecot

    def _answer(self, step: str) -> str:
        return self.answers.pop(0)[1] if self.answers and self.answers[0][0] == step else ""

    async def handle_MAIL(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        envelope.mail_from = address
        return self._answer("MAIL") or "250 OK"

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if answer := self._answer("RCPT"):
            return answer
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if answer := self._answer("DATA"):
            return answer
        mail: bytes = envelope.content
        self.taken.append((envelope.mail_from, tuple(envelope.rcpt_tos), mail))
        for address in envelope.rcpt_tos:
            self._dovecot.deliver(address, received(mail, "pass", envelope.mail_from))
        if self.cut:
            self.cut = False
            server.transport.abort()
        return "250 OK"


def received(mail: bytes, dmarc: str, sender: str = "", domain: str = "") -> bytes:
    """A mail as the receiving server stores it."""
    found = domain or sender.rpartition("@")[2] or "example.org"
    trace = (
        f"Return-Path: <{sender}>\r\n"
        f"Authentication-Results: {AUTHORITY};\r\n\tspf=pass smtp.mailfrom={sender or 'x@y'};\r\n"
        f"\tdmarc={dmarc} (p=REJECT) header.from={found}\r\n"
        f"Received: from there by {AUTHORITY}; Thu, 26 Nov 2026 10:00:00 +0000\r\n"
    )
    return trace.encode() + mail


@asynccontextmanager
async def smtp_server(dovecot: Dovecot, tls: Any = None, *, at_once: bool = False) -> AsyncIterator[Smtp]:
    """Runs an SMTP server in this event loop; with `tls` it is encrypted, `at_once` or by STARTTLS."""

    def sign_in(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        right = isinstance(data, LoginPassword) and data.password == b"secret"
        return AuthResult(success=right, handled=False)

    smtp = Smtp(dovecot)
    controller = UnthreadedController(
        smtp,
        hostname="127.0.0.1",
        port=0,
        loop=asyncio.get_running_loop(),
        authenticator=sign_in,
        auth_required=True,
        auth_require_tls=tls is not None and not at_once,
        ssl_context=tls if at_once else None,
        **({"tls_context": tls, "require_starttls": True} if tls and not at_once else {}),
    )
    server = await controller._create_server()
    smtp.port = server.sockets[0].getsockname()[1]
    try:
        yield smtp
    finally:
        server.close()


class Proxy:
    """Passes on connections to a port. `change` may change what the server says, `ask` what it is asked; `hold` stops
    passing anything on."""

    port = 0

    def __init__(self, target: int) -> None:
        self.change: Callable[[bytes], bytes] = lambda data: data
        self.ask: Callable[[bytes], bytes] = lambda data: data
        self.hold = False
        self.accepted = 0
        self._target = target
        self._open: list[asyncio.StreamWriter] = []

    def cut(self) -> None:
        """Cuts all connections."""
        for each in self._open:
            each.transport.abort()
        self._open.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        there, here = await asyncio.open_connection("127.0.0.1", self._target)
        self._open += [writer, here]

        async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter, answers: bool) -> None:
            try:
                while data := await source.read(1 << 16):
                    if not self.hold:
                        to.write(self.change(data) if answers else self.ask(data))
            except OSError:
                pass
            to.close()

        await asyncio.gather(copy(reader, here, False), copy(there, writer, True))


@asynccontextmanager
async def proxy(target: int) -> AsyncIterator[Proxy]:
    """Runs a proxy in this event loop."""
    between = Proxy(target)
    server = await asyncio.start_server(between.serve, "127.0.0.1", 0)
    between.port = server.sockets[0].getsockname()[1]
    try:
        yield between
    finally:
        between.cut()
        server.close()
        await anyio.sleep(0.01)
