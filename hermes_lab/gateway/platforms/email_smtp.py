"""Hands mails to an SMTP server, and says for certain what became of them, as far as that is known."""

import ssl
from contextlib import suppress

import anyio

from hermes_lab.gateway.platform import PlatformError, Refused, TryLater, Undeliverable, Unsure
from hermes_lab.gateway.platforms.email_imap import Server

_SIGN_IN_SECONDS, _TAKE_SECONDS = 15.0, 120.0
_BUSY, _TOO_LARGE = 421, 552
_BUSY_SECONDS = 60.0


async def check(server: Server, address: str) -> None:
    """Signs in. Raises `PlatformError`, and `Refused` for a wrong password."""
    await _deliver(server, address)


async def deliver(server: Server, address: str, to: str, mail: bytes) -> None:
    """Sends a mail. Raises `PlatformError` and `Undeliverable`."""
    await _deliver(server, address, to, mail)


async def _deliver(server: Server, address: str, to: str = "", mail: bytes = b"") -> None:
    import aiosmtplib

    encrypted = server.tls is not None
    client = aiosmtplib.SMTP(
        hostname=server.host,
        port=server.port,
        use_tls=encrypted and server.at_once,
        start_tls=encrypted and not server.at_once,
        tls_context=server.tls,
        local_hostname=address.rpartition("@")[2],
        timeout=_SIGN_IN_SECONDS,
    )
    given = False
    try:
        with anyio.fail_after(_SIGN_IN_SECONDS):
            await client.connect()
            await client.ehlo()
            # A server on this machine may need no password.
            if encrypted or client.supports_extension("auth"):
                await client.login(server.user, server.password)
            if to:
                size = [f"size={len(mail)}"] if client.supports_extension("size") else []
                await client.mail(address, options=size)
                await client.rcpt(to)
        if to:
            given = True
            await client.data(mail, timeout=_TAKE_SECONDS)
        with suppress(aiosmtplib.SMTPException, OSError), anyio.move_on_after(1):
            await client.quit()
    except (aiosmtplib.SMTPException, OSError, ValueError) as error:
        raise _translated(error, given=given) from None
    finally:
        client.close()


def _translated(error: Exception, *, given: bool) -> Exception:
    """What became of the mail. `given`: the server may have all of it. What servers write is not shown: it holds
    addresses."""
    import aiosmtplib

    code = error.code if isinstance(error, aiosmtplib.SMTPResponseException) else 0
    lasting = 500 <= code < 600
    said = f"SMTP: the server answers {code}"
    if isinstance(error, aiosmtplib.SMTPAuthenticationError) and lasting:
        return Refused(f"SMTP: wrong user or password ({code})")
    if isinstance(error, aiosmtplib.SMTPRecipientRefused | aiosmtplib.SMTPDataError) and lasting:
        return Undeliverable(said)
    if isinstance(error, aiosmtplib.SMTPSenderRefused) and lasting:
        if code == _TOO_LARGE:
            return Undeliverable(said)
        return Refused(f"{said} to mails from gateway.email.address")
    if code == _BUSY:
        return TryLater(_BUSY_SECONDS, said)
    if 400 <= code < 600:
        return PlatformError(said)
    why = _why(error)
    if given:
        return Unsure(f"SMTP: {why} after the mail was sent")
    if type(error) is aiosmtplib.SMTPException:
        return Refused("SMTP: the server does not offer STARTTLS or a way to sign in (gateway.email.security)")
    if isinstance(error, ValueError) and not isinstance(error, OSError):
        return Undeliverable("SMTP: the address cannot be sent")
    return PlatformError(f"SMTP: {why}")


def _why(error: Exception) -> str:
    cause = error.__cause__ or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the server's certificate is not valid: {cause.verify_message}"
    if isinstance(error, TimeoutError):
        return "no answer"
    return (cause.strerror if isinstance(cause, OSError) else "") or "no connection"
