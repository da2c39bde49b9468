"""What services log, and how tickets about full logs read. The splits share nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split. Logs are named without their ending."""

    logs: tuple[str, ...]
    others: tuple[str, ...]
    """Logs that are not to be touched."""
    lines: tuple[str, ...]
    roots: tuple[str, ...]
    held: tuple[str, ...]
    """How the file is called that the writer holds open."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines())


MONTHS = _words("January February March April May June July August September October November December")

VOCABULARIES: Mapping[str, Vocabulary] = {
    "train": Vocabulary(
        logs=_words("access app requests jobs worker queue"),
        others=_words("error audit boot"),
        lines=_lines(
            """
            GET /status 200
            GET /orders 200
            POST /orders 201
            GET /orders 404
            user signed in
            user signed out
            job finished
            job started
            cache filled
            connection closed by peer
            """
        ),
        roots=_words("var/log opt/log"),
        held=_words("stdout stderr"),
    ),
    "validation": Vocabulary(
        logs=_words("traffic ingest relay"),
        others=_words("crash setup"),
        lines=_lines(
            """
            batch of 20 taken in
            message passed on
            message held back
            peer says hello
            disk looks fine
            """
        ),
        roots=_words("data/log"),
        held=_words("out"),
    ),
    "heldout": Vocabulary(
        logs=_words("visits events deliveries transfers calls"),
        others=_words("panic login kernel"),
        lines=_lines(
            """
            turnstile opened
            turnstile shut
            parcel left the ramp
            parcel came back
            sensor answered late
            lamp replaced
            caller was put through
            nobody answered
            """
        ),
        roots=_words("srv/log home/log"),
        held=_words("fd1 sink"),
    ),
}

REQUESTS: Mapping[str, Sequence[str]] = {
    "train": (
        "{path} of {place} is getting too big. Please rotate it once by hand.",
        "Disk space is low on the machine of {place}: rotate {path} now.",
        "The nightly job did not run for {place}, so {path} was never rotated. Catch up on that.",
        "{place} writes {path}. It is due, rotate it.",
        "Could you do one log rotation for {place}? It is about {path}.",
        "Before the upgrade of {place}, have {path} rotated.",
        "One rotation of {path}, please, the log of {place}.",
        "Monitoring says {path} ({place}) has not been rotated for a month. Do it.",
        "We start a load test of {place} and want an empty {path}: rotate.",
    ),
    "validation": (
        "Take {path} of {place} through a rotation.",
        "I cannot open {path} in my editor any more, {place} writes too much. A rotation would help.",
        "A round of rotation is overdue at {place}: {path}.",
    ),
    "heldout": (
        "The people behind {place} would like a fresh {path}; make the rotation that is due.",
        "Nothing has turned over {path} at {place} since the timer broke. Turn it over a single time.",
        "{path} must be turned over, as every week; {place} has no timer at present.",
        "Somebody removed the timer of {place}. Carry out by hand what it would have done to {path}.",
        "See to {path}, which belongs to {place}: it wants its weekly turnover.",
    ),
}
CLOSINGS: Mapping[str, Sequence[str]] = {
    "train": (
        "There is no logrotate on that box; do what it would do by {config}. Today is {date}.",
        "How, is in {config}; logrotate itself is not installed. It is {date}.",
        "Date: {date}. Follow {config}, with mv and the like, since we have no logrotate there.",
        "Go by {config} as logrotate would, but with your own hands ({date}).",
        "logrotate is missing, its {config} is not: act on that. We have {date}.",
    ),
    "validation": (
        "{config} has the details, in the language of logrotate, which is not on the machine. Day: {date}.",
        "On {date}, without logrotate, but according to {config}.",
    ),
    "heldout": (
        "Let {config} guide you; the program that reads it is gone. The calendar says {date}.",
        "This is {date}. You will find the terms in {config}, though no logrotate to obey them.",
        "The terms are those of {config}. You act in place of logrotate, on {date}.",
    ),
}
