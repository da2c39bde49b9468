"""The configuration of the gateway."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from hermes_lab.config.section import Section
from hermes_lab.config.units import Unit

Verbosity = Literal["off", "new", "all", "verbose"]


class PlatformConfig(Section):
    """What every platform has."""

    allow: tuple[str, ...] = ()
    """The users who may write to the agent, by their ids on the platform. Others are refused, or can request pairing
    (`gateway.pairing`)."""


class HttpConfig(Section):
    """HTTP: an endpoint that speaks OpenAI's chat completions, and webhooks. Whoever has the key may write."""

    host: str = "127.0.0.1"
    """The address to listen at."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    """The port; 0: any free one."""
    key_env: str = "HERMES_HTTP_KEY"
    """The environment variable with the key that clients send as `Authorization: Bearer`."""
    webhooks: dict[str, "WebhookConfig"] = Field(default_factory=dict)
    """Webhooks by name, at `/webhook/NAME`."""
    timeout: Annotated[float, Field(gt=0), Unit("seconds")] = 900.0
    """Seconds that a request waits for the answer."""


class WebhookConfig(Section):
    """A webhook: a signed request starts a turn."""

    secret_env: str
    """The environment variable with the secret. Requests carry `X-Hub-Signature-256: sha256=` and the HMAC of their
    body, as GitHub's do."""
    prompt: str = "{body}"
    """The message to the agent; `{body}` is replaced by the body of the request."""
    deliver: str = ""
    """The chat that gets the answer, as in `telegram:dm:123`; empty: the answer to the request."""


class TelegramConfig(PlatformConfig):
    """Telegram, as a bot of @BotFather."""

    token_env: str = "TELEGRAM_BOT_TOKEN"  # noqa: S105
    """The environment variable with the bot's token."""
    base_url: str = "https://api.telegram.org"
    """The server of the Bot API. Your own Bot API server has another."""


class MatrixConfig(PlatformConfig):
    """Matrix, as a user of a homeserver."""

    homeserver: str = ""
    """The homeserver's address, such as `https://matrix.org`."""
    user: str = ""
    """The bot's user id, such as `@hermes:matrix.org`."""
    password_env: str = "MATRIX_PASSWORD"  # noqa: S105
    """The environment variable with its password."""
    invitations: Literal["allowed", "direct"] = "allowed"
    """Which invitations to rooms the bot accepts. `allowed`: those of users who may write. `direct`: also those of
    strangers to a direct chat, where they may ask to be paired (`gateway.pairing`)."""


class EmailConfig(PlatformConfig):
    """E-mail: an IMAP inbox and an SMTP server. `allow` lists addresses."""

    address: str = ""
    """The agent's address, which its replies come from."""
    user: str = ""
    """The user to sign in as; empty: the address."""
    password_env: str = "EMAIL_PASSWORD"  # noqa: S105
    """The environment variable with the password of both servers."""
    imap_host: str = ""
    """The IMAP server."""
    imap_port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Its port; 0: 993 with `tls`, or else 143."""
    smtp_host: str = ""
    """The SMTP server."""
    smtp_port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Its port; 0: 465 with `tls`, 587 with `starttls`, 25 with `none`."""
    security: Literal["tls", "starttls", "none"] = "tls"
    """How connections are encrypted. `none` is only for servers on this machine."""
    authenticated: Literal["dmarc", "any"] = "dmarc"
    """Which emails are accepted as authentic. `dmarc`: those that the receiving server marks `dmarc=pass` in
    `Authentication-Results`; it must add that header to every email. `any`: all; the sender can be forged."""
    authority: str = ""
    """The receiving server's name in `Authentication-Results`, or the domain of its names. Headers of other servers are
    ignored, and only the topmost one of an email counts. Empty: the domain of `imap_host`."""

    @field_validator("allow")
    @classmethod
    def _is_in_lower_case(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := next((each for each in addresses if each.count("@") != 1 or not each.isascii()), None):
            raise ValueError(f"{wrong!r} is not a plain address, such as ann@example.org")
        return tuple(each.strip().lower() for each in addresses)


class SlackConfig(PlatformConfig):
    """Slack, as an app with Socket Mode. `allow` lists user ids, such as `U012AB3CD`."""

    token_env: str = "SLACK_BOT_TOKEN"  # noqa: S105
    """The environment variable with the bot's token (`xoxb-...`)."""
    app_token_env: str = "SLACK_APP_TOKEN"  # noqa: S105
    """The environment variable with the app's token for Socket Mode (`xapp-...`)."""
    base_url: str = "https://slack.com/api/"
    """The address of the Web API."""


class DiscordConfig(PlatformConfig):
    """Discord, as a bot of an application. `allow` lists user ids, which are numbers."""

    token_env: str = "DISCORD_BOT_TOKEN"  # noqa: S105
    """The environment variable with the bot's token."""
    base_url: str = "https://discord.com/api/v10"
    """The address of the REST API."""


class GatewayConfig(Section):
    """The agent on chat platforms (`hermes-lab gateway run`)."""

    platforms: tuple[str, ...] = ()
    """The platforms to connect to, such as `telegram` and `http`."""
    home: str = ""
    """The chat for messages that belong to no other chat, such as `telegram:dm:123`."""
    pairing: bool = True
    """Whether a stranger who writes to the agent directly gets a code, which you approve with `hermes-lab gateway pair
    CODE`. `false`: strangers get no answer."""
    groups: Literal["addressed", "all"] = "addressed"
    """Which messages in groups the agent answers. `addressed`: those that mention it or reply to it. `all`: every
    message of users who may write."""
    shared_history: bool = False
    """Whether `/resume`, `/cron list` and the tool `session_search` show every chat the sessions and jobs of all others
    and of the terminal. `true` is for a gateway that only you write to."""
    verbose: Verbosity = "off"
    """Which tool calls chats show at the start (`/verbose` changes it)."""
    concurrency: Annotated[int, Field(gt=0)] = 8
    """Maximum number of turns of chats at the same time, and of prompts of scheduled jobs besides (docs/cron.md)."""
    live_chats: Annotated[int, Field(gt=0)] = 32
    """Chats that are kept open while they are idle, each with its sandbox. The files that the agent makes in a chat are
    deleted when it is closed."""
    idle_minutes: Annotated[float, Field(gt=0), Unit("minutes")] = 30.0
    """Minutes without a message after which a chat is closed; the next message continues its session."""
    http: HttpConfig = HttpConfig()
    """HTTP."""
    telegram: TelegramConfig = TelegramConfig()
    """Telegram."""
    matrix: MatrixConfig = MatrixConfig()
    """Matrix."""
    email: EmailConfig = EmailConfig()
    """E-mail."""
    slack: SlackConfig = SlackConfig()
    """Slack."""
    discord: DiscordConfig = DiscordConfig()
    """Discord."""
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Settings of platforms that other packages provide, by name."""

    @field_validator("platforms")
    @classmethod
    def _are_each_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"{twice!r} is listed twice")
        return names
