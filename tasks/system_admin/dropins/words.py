"""What services are configured by, and how tickets about it read. The splits share nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split."""

    counts: tuple[str, ...]
    times: tuple[str, ...]
    switches: tuple[str, ...]
    shipped: tuple[str, ...]
    """Names of drop-ins that are there already."""
    fresh: tuple[str, ...]
    """Names of drop-ins that are asked for."""
    tickets: tuple[str, ...]
    folders: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


VOCABULARIES: Mapping[str, Vocabulary] = {
    "train": Vocabulary(
        counts=_words("max_clients worker_count queue_length open_files cache_entries pool_size thread_limit backlog"),
        times=_words("idle_timeout grace_period retry_delay poll_interval lease_time read_timeout"),
        switches=_words("keepalive compression verify_peer fast_start syslog reuse_port"),
        shipped=_words("base network logging storage locale auth paths"),
        fresh=_words("tuning limits clients capacity peak traffic"),
        tickets=_words("OPS INC"),
        folders=_words("etc opt/etc usr/local/etc"),
    ),
    "validation": Vocabulary(
        counts=_words("session_limit shard_count buffer_slots listener_count"),
        times=_words("connect_wait flush_every stale_after"),
        switches=_words("batching read_ahead strict_mode"),
        shipped=_words("core sockets metrics tenants"),
        fresh=_words("growth quotas winter"),
        tickets=_words("REQ"),
        folders=_words("conf opt/conf"),
    ),
    "heldout": Vocabulary(
        counts=_words("upload_slots mailbox_cap row_batch spare_children max_streams job_lanes"),
        times=_words("ping_every linger ban_length refresh_after hello_wait"),
        switches=_words("prefetch autosave dual_stack dedupe tracing"),
        shipped=_words("main interfaces journal volumes access codecs"),
        fresh=_words("season overload staffing fairday headroom"),
        tickets=_words("CHG TASK"),
        folders=_words("settings srv/settings var/settings"),
    ),
}

REQUESTS: Mapping[str, Sequence[str]] = {
    "train": (
        "{ticket}: {place} needs {count} = {n}, {time} of {t} seconds and {switch} switched {state}.",
        "{place} is at its limits ({ticket}). Set {count} to {n} and {time} to {t} seconds, and turn {switch} {state}.",
        "Ticket {ticket}. For {place}: {switch} {state}, {count} {n}, {time} {t} seconds.",
        "We agreed in {ticket} that {place} gets {n} as its {count}, a {time} of {t} seconds, and {switch} {state}.",
        "Please change three settings of {place} for {ticket}: {count} to {n}, {time} to {t} seconds, {switch} to "
        "{state}.",
        'From {ticket}: "{place} should run with {count} {n}, {switch} {state} and a {time} of {t} seconds."',
        "Users of {place} complain about waiting. {ticket} settles it: {time} {t} seconds, {count} {n}, {switch} "
        "{state}.",
        "{ticket} is yours: turn {switch} {state} on {place}, make {count} {n}, and let {time} be {t} seconds.",
        "New numbers for {place}, approved as {ticket}: {count} at {n}, {time} at {t} seconds. Also {switch} {state}.",
    ),
    "validation": (
        "{ticket} wants {place} configured with {count} at {n}, {switch} {state} and {t} seconds for {time}.",
        "Could you reconfigure {place}? As {ticket} has it, {time} becomes {t} seconds, {count} becomes {n}, {switch} "
        "becomes {state}.",
        "Reconfigure {place} after {ticket}: {count}: {n}. {time}: {t} seconds. {switch}: {state}.",
    ),
    "heldout": (
        "Whoever staffs {place} asks under {ticket} for a {time} of {t} seconds, for {switch} {state}, and for {n} as "
        "{count}.",
        "Before the weekend {place} has to have {count} raised or lowered to {n}, {time} at {t} seconds, {switch} at "
        "{state}; the number is {ticket}.",
        "I opened {ticket}, because {place} does badly under load: give it {n} for {count}, {t} seconds for {time}, "
        "and "
        "{state} for {switch}.",
        "Work order {ticket}, {place}. {time} is to last {t} seconds, {count} is to be {n}, {switch} is to be {state}.",
        "With {ticket} comes a change at {place}: {switch} goes {state}, {count} goes to {n}, {time} goes to {t} "
        "seconds.",
    ),
}
CLOSINGS: Mapping[str, Sequence[str]] = {
    "train": (
        "Do it in one new drop-in called {name} with the next number, in {folder}; the files there stay as they are.",
        "Put them into {folder} as one more drop-in, {name}, numbered on from the others. Touch nothing else.",
        "All three go into a single new drop-in in {folder}. Call it {name} and give it the next number.",
        "Leave the old files alone and add one drop-in to {folder}: its name is {name}, its number the next one.",
        "That makes one new drop-in, {name}, with the following number. {folder} is where the others are.",
        "Add the drop-in {name} in {folder} for it, next number, nothing else in it.",
    ),
    "validation": (
        "Use a further drop-in of {folder}, number on, name {name}; do not edit what is there.",
        "It is to be a drop-in by the name of {name}, after the last one in {folder}.",
    ),
    "heldout": (
        "A separate drop-in ({name}) shall carry it, with the number that comes next in {folder}. Edit no other file.",
        "I want that kept in a drop-in to itself within {folder}, under the next number, by the title {name}.",
        "Create for it in {folder} the drop-in {name}, numbered in sequence, holding just this.",
        "Only a drop-in is to be created, {name}, continuing the numbers of {folder}.",
    ),
}
