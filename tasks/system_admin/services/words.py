"""What units are set by, and how tickets about them read. The splits share nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split."""

    numbers: tuple[str, ...]
    """Keys of settings that are whole numbers."""
    texts: tuple[tuple[str, str], ...]
    """Further settings, which no ticket is about."""
    helpers: tuple[str, ...]
    """What the units beside the main one are called, behind its name."""
    serials: tuple[str, ...]
    """Keys that count the versions of a unit's settings."""
    tickets: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, _, value in (word.partition("=") for word in text.split()))


VOCABULARIES: Mapping[str, Vocabulary] = {
    "train": Vocabulary(
        numbers=_words("WORKERS MAX_CLIENTS CACHE_MB QUEUE_SIZE RETRIES POOL_SIZE TIMEOUT BATCH_SIZE"),
        texts=_pairs("LANG=en_GB LOG_LEVEL=info MODE=standard DATA_DIR=/srv/data COLOR=never TZ=UTC"),
        helpers=_words("db cache mail web cron proxy"),
        serials=_words("SERIAL REVISION"),
        tickets=_words("OPS INC"),
    ),
    "validation": Vocabulary(
        numbers=_words("SHARDS BUFFERS SESSIONS LISTENERS"),
        texts=_pairs("CHARSET=utf-8 VERBOSITY=low SPOOL=/data/spool"),
        helpers=_words("index feed auth"),
        serials=_words("EDITION"),
        tickets=_words("REQ"),
    ),
    "heldout": Vocabulary(
        numbers=_words("LANES STREAMS SLOTS HANDLERS UPLOADS MAILBOXES"),
        texts=_pairs("REGION=north STYLE=compact TRACE=none HOME_PAGE=/start ENCODING=latin1"),
        helpers=_words("search store gate sync media"),
        serials=_words("VERSION ISSUE"),
        tickets=_words("CHG TASK"),
    ),
}

REQUESTS: Mapping[str, Sequence[str]] = {
    "train": (
        "{ticket}: {place} should run with {key} at {n}.",
        "Please set {key} to {n} for {place}. The ticket is {ticket}.",
        "{place} is too slow with the {key} that it has. According to {ticket} it gets {n}.",
        "As agreed in {ticket}, change {key} of {place} to {n}.",
        "Ticket {ticket} for you: {place}, new {key}, value {n}.",
        "We measured {place} and found that {key} should be {n}, see {ticket}.",
        "{key} of {place} becomes {n} ({ticket}).",
        "From the capacity meeting: {place} gets {n} for {key}. It is filed as {ticket}.",
        "{ticket} was approved. Give {place} a {key} of {n}.",
    ),
    "validation": (
        "Under {ticket} we adjust {key} at {place}: {n} from today.",
        "Adjust {place}: {n} instead of the present {key}. Number {ticket}.",
        "Can you do {ticket}, an adjustment of {key} to {n} at {place}?",
    ),
    "heldout": (
        "{place} had a bad morning; {ticket} says that {n} for {key} would have spared us that.",
        "Work through {ticket}, which raises or lowers {key} at {place} to {n}.",
        "Those who sell {place} advise {n} as {key}. I have put that into {ticket}, now it has to happen.",
        "{n} is the {key} that {place} is to have according to {ticket}.",
        "Would you take on {ticket}? In short: {place}, {key}, {n}.",
    ),
}
CLOSINGS: Mapping[str, Sequence[str]] = {
    "train": (
        "Edit {file}, then reload the unit {unit} with ./svc; open the change {ticket} before and close it after, "
        "so that "
        "{record} gets written.",
        "It stands in {file}. The unit {unit} has to be reloaded, inside a change: ./svc open {ticket}, ./svc close. I "
        "read {record} later.",
        "The file is {file}, the unit {unit}. Reload it by ./svc between open {ticket} and close; the controller "
        "notes all "
        "of it in {record}.",
        "Once {file} is changed, open {ticket} with ./svc, reload {unit}, and close. That leaves {record}.",
        "Do not forget to reload {unit} after you have changed {file}: ./svc does it, in a change named {ticket}, "
        "which "
        "{record} tells of.",
    ),
    "validation": (
        "{file} is the place; ./svc makes {unit} reload, once a change {ticket} is open. Close that at the end, and "
        "see "
        "that {record} exists.",
        "Write it into {file} and use ./svc to open {ticket}, to reload {unit}, and to close. We archive {record}.",
    ),
    "heldout": (
        "You find it in {file}. With ./svc, a change called {ticket} is to be opened, {unit} reloaded, the change "
        "closed. "
        "{record} is our evidence.",
        "First {file}; afterwards let ./svc reload {unit} in the course of a change {ticket} (open, close) that "
        "ends up in "
        "{record}.",
        "{unit} takes its settings from {file} and is reloaded through ./svc, after open {ticket} and before close. "
        "The "
        "auditors ask for {record}.",
    ),
}
