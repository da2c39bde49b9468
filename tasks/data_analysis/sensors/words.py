"""The words of plants and their loggers. No split shares one."""

from collections.abc import Mapping
from dataclasses import dataclass

from hermes_lab.tasks.data_analysis._conventions import words


@dataclass(frozen=True)
class Vocabulary:
    """The words of one split. Each tuple holds the names that a column, a figure or a word in a cell can have."""

    time: tuple[str, ...]
    probe: tuple[str, ...]
    value: tuple[str, ...]
    corrections: tuple[tuple[str, ...], ...]
    """Two further columns of measured values."""
    firmware: tuple[str, ...]
    status: tuple[tuple[str, ...], ...]
    """A column and its values."""
    span: tuple[str, ...]
    page: tuple[str, ...]
    """What stands in place of a probe where a page is added up."""
    means: tuple[str, ...]
    count: tuple[str, ...]
    peak: tuple[str, ...]
    prefixes: tuple[str, ...]
    head: str
    """The block before the columns, over `serial` and `date`."""
    foot: str
    note: str
    """The description that comes with an export, over the names of the columns."""


VOCABULARIES: Mapping[str, Vocabulary] = {
    "train": Vocabulary(
        time=words("time taken"),
        probe=words("probe channel"),
        value=words("value reading"),
        corrections=(words("zero drift"), words("dark base")),
        firmware=words("firmware version"),
        status=(words("status ok stale manual"), words("quality good fair raw")),
        span=words("minutes span"),
        page=words("total page"),
        means=words("means averages"),
        count=words("readings rows"),
        peak=words("highest_at peak"),
        prefixes=words("T- KL- Q- HX-"),
        head="Logger DL-200\nSerial {serial}\nExported {date}\n",
        foot="end of data",
        note="""\
# The logger's export

After three lines about the logger come the columns, then a row for each time that a probe was read.

- `{time}`, `{probe}`, `{value}`
- `{zero}` and `{drift}`: what two further instruments showed
- `{firmware}`: what ran on the logger
- `{status}`: of the row
- `{span}`: how long the needle stood still

The sum of each printed page stands in rows of its own, with `{page}` as `{probe}`.
""",
    ),
    "validation": Vocabulary(
        time=words("moment"),
        probe=words("gauge"),
        value=words("level"),
        corrections=(words("tare sag"),),
        firmware=words("release"),
        status=(words("flag live replay check"),),
        span=words("length"),
        page=words("carry"),
        means=words("typical"),
        count=words("used"),
        peak=words("top_at"),
        prefixes=words("B- WN-"),
        head="*** DATA LOGGER ***\nunit: {serial}\n",
        foot="*** end ***",
        note="""\
A title, then the table: {time}, {probe}, {value}, {zero}, {drift}, {firmware}, {status}, {span}.
Carried-over sums are marked {page} below {probe}. They only repeat what stands above.
""",
    ),
    "heldout": Vocabulary(
        time=words("at clock"),
        probe=words("sensor point"),
        value=words("measure signal"),
        corrections=(words("ground ambient"), words("shade floor")),
        firmware=words("build software"),
        status=(words("state normal forced paused"), words("mode auto hand test")),
        span=words("held dwell"),
        page=words("subtotal sum"),
        means=words("by_sensor mean_values"),
        count=words("counted considered"),
        peak=words("maximum_at record_time"),
        prefixes=words("S- MV- EE- J-"),
        head="Site recorder\nno. {serial}\n{date}\n\n",
        foot="(end of recording)",
        note="""\
WHAT THE RECORDER WRITES
Some lines on the device. Below them the recorded data:
{time} | {probe} | {value} | {zero} | {drift} | {firmware} | {status} | {span}
Lines with {page} instead of a {probe} come from the printer, which adds up each sheet.
""",
    ),
}

REQUESTS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "What did every {probe} of {place} read on average? The export is {file}.",
        "Please evaluate {file}, exported by the logger of {place}: one mean for each {probe}.",
        "{file} comes from {place}. I need the mean of each {probe} and the time of the highest {value}.",
        "The logger of {place} left us {file}. Find the means and the time when the {value} was highest.",
        "Our chart of {place} needs the mean {value} of every {probe}, see {file}.",
        "Somebody at {place} wants to compare each {probe}. Work out the means in {file}.",
        "Go through {file} from {place} and average what each {probe} read.",
        "We check {place} once a month: average {file} by {probe}, and say when the {value} was highest.",
        "How do the means of each {probe} look in {file}, the latest export of {place}?",
    ),
    "validation": (
        "For {place}, condense {file} into a typical {value} per {probe}.",
        "Could you draw typical figures, {probe} by {probe}, from {file} of {place}?",
        "A digest of {file} is wanted at {place}, holding each {probe} with its typical {value}.",
    ),
    "heldout": (
        "The inspector visits {place} tomorrow and asks for arithmetic means out of {file}, {probe} after {probe}.",
        "I have {file}, a recording made at {place}. Derive the arithmetic mean of any {probe} in it.",
        "Characterise each {probe} at {place} by its arithmetic mean; {file} has the recording.",
        "Before we replace a {probe} at {place}, characterise all of them using {file}.",
        "Let me have a statistic of the recording {file} ({place}), arranged after {probe}.",
    ),
}
TERMS: Mapping[str, tuple[str, ...]] = {
    "train": (
        "All rows count as they stand, but for the sums of pages.",
        "Rows that sum up a page are no readings; take every other row as it is.",
        "Leave the sums of pages out and take the other rows as they are, each with the same weight.",
    ),
    "validation": ("Everything besides carried-over sums is taken literally and alike.",),
    "heldout": (
        "Ignore what the printer added; otherwise each recorded line enters unchanged.",
        "Except for the printer's additions, use all lines unchanged.",
    ),
}
DELIVERIES: Mapping[str, tuple[str, ...]] = {
    "train": (
        'Write answer.json as {{"{means}": {{{probe}: mean}}, "{count}": number of readings, "{peak}": time}}, where '
        "the time is that of the highest {value}, as in the file; means to at least 3 decimals.",
        'The result goes to answer.json: {{"{means}": {{{probe}: mean, ...}}, "{count}": how many readings, "{peak}": '
        "time of the highest {value}}}, names and times as the file has them, 3 decimals or more.",
        'Leave answer.json with "{means}" (from {probe} to mean, with 3 decimals at least), "{count}" (the number '
        'of readings) and "{peak}" (the time of the highest {value}, copied from the file).',
    ),
    "validation": (
        'Store {{"{means}": {{"99": 1.234}}, "{count}": 56, "{peak}": "..."}} in answer.json: mean figures (three '
        "digits past the point), entries involved, and the {time} of the top {value}, both spelled like in {file}.",
        'Expected in answer.json: "{means}" maps a {probe} to its mean figure (three digits past the point), "{count}" '
        'says how many entries were involved, "{peak}" quotes the {time} of the top {value}.',
    ),
    "heldout": (
        'Make an answer.json of the shape {{"{means}": {{"99": 1.234}}, "{count}": 56, "{peak}": "..."}}; the last is '
        "the `{time}` of the maximum, spelled identically, the one before the quantity of lines behind it. Keep three "
        "fractional digits.",
        'It should end up in answer.json, where "{means}" has a {probe} and its result (three fractional digits), '
        '"{count}" the quantity of lines behind all this, "{peak}" the `{time}` belonging to the maximum, '
        "spelled identically.",
        'Fill answer.json with three things: "{means}" ({probe} to result, three fractional digits), "{count}" '
        '(quantity of lines evaluated) and "{peak}" (the `{time}` at which the maximum occurred, spelled identically).',
    ),
}
