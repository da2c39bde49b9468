"""House conventions about how an answer is written; each changes it, whatever the value and the sources are."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.family import RuleType
from hermes_lab.tasks.web_research._claims import Cite, Claim, Form, Source, Written, written
from hermes_lab.tasks.web_research._site import Publisher

Literals = Mapping[str, Any]
Draw = Callable[[Draws, Any], Mapping[str, Any]]

_SEPARATORS = {"a point": ".", "a space": " ", "an apostrophe": "'", "an underscore": "_"}
_MARKS = (("«", "»"), ("„", "“"), ("‹", "›"), ("[", "]"), ("<<", ">>"))
_DATES: Mapping[str, Callable[[date], str]] = {
    "(31.05.2024)": lambda day: f"({day.day:02d}.{day.month:02d}.{day.year})",
    "(20240531)": lambda day: f"({day.year}{day.month:02d}{day.day:02d})",
    "(05/31/24)": lambda day: f"({day.month:02d}/{day.day:02d}/{day.year % 100:02d})",
    "(2024/5/31)": lambda day: f"({day.year}/{day.month}/{day.day})",
}


def _of(name: str, values: Sequence[Any]) -> Draw:
    return lambda draws, site_config: {name: draws.choice(values)}


def _grouped(claim: Claim, rule: Literals) -> Written:
    plain = written(claim)
    whole, _, part = plain.value.partition(".")
    grouped = f"{int(whole):,}".replace(",", _SEPARATORS[rule["separator"]])
    return Written(grouped + (f",{part}" if part else ""), plain.cites, exact=True)


def _prefixed(claim: Claim, rule: Literals) -> Written:
    plain = written(claim)
    return Written(f"{rule['mark']} {plain.value}", plain.cites, exact=True)


def _divided(claim: Claim, rule: Literals) -> Written:
    value = (claim.number / rule["number"]).normalize()
    return Written(f"{value:f}", written(claim).cites)


def _padded(claim: Claim, rule: Literals) -> Written:
    plain = written(claim)
    return Written(plain.value.zfill(rule["width"]), plain.cites, exact=True)


def _rounded(claim: Claim, rule: Literals) -> Written:
    step = Decimal(rule["step"])
    return Written(str((claim.number / step).quantize(Decimal(1), ROUND_HALF_UP) * step), written(claim).cites)


def _each_url(change: Callable[[Source, Literals], str]) -> Callable[[Claim, Literals], Written]:
    def write(claim: Claim, rule: Literals) -> Written:
        plain = written(claim)
        return Written(plain.value, tuple(Cite(change(cite.source, rule), cite.source) for cite in plain.cites))

    return write


def _marked(claim: Claim, rule: Literals) -> Written:
    plain = written(claim)
    return Written(plain.value, tuple(Cite(c.url, c.source, rule["before"], rule["after"]) for c in plain.cites))


def _marks(draws: Draws, site_config: Any) -> Mapping[str, Any]:
    del site_config
    before, after = draws.choice(_MARKS)
    return {"before": before, "after": after}


def _standing(draws: Draws, site_config: Any) -> Mapping[str, Any]:
    publisher: Publisher = site_config.publisher
    page = draws.choice(publisher.standing)
    return {"title": page.title, "url": page.url, "line": page.line, "changed": page.changed}


def _also(claim: Claim, rule: Literals) -> Written:
    plain = written(claim)
    source = Source(rule["url"], rule["line"], rule["line"], rule["changed"])
    return Written(plain.value, (*plain.cites, Cite(source.url, source)))


def _label(draws: Draws, site_config: Any) -> Mapping[str, Any]:
    return {"label": site_config.publisher.changed_label, "example": draws.choice(tuple(_DATES))}


def _form(
    paraphrases: tuple[str, ...],
    instruction: str,
    draw: Draw,
    write: Callable[[Claim, Literals], Written],
    unseen: bool = False,
) -> Form:
    return Form(RuleType(paraphrases, instruction, draw, unseen), write)


FORMS: Mapping[str, Form] = {
    "grouped": _form(
        (
            "values are read by a program that wants {separator} between thousands and a decimal comma",
            "numbers are grouped with {separator}, and decimals follow a comma",
            "a value is only accepted with {separator} after each three digits, and a comma for the decimal point",
        ),
        "write the value with {separator} between groups of three digits and a comma before any decimals",
        _of("separator", tuple(_SEPARATORS)),
        _grouped,
    ),
    "prefix": _form(
        (
            "every value carries {mark} in front",
            "a value without {mark} before it is sent back",
            "values are filed under {mark}, which stands before the number",
        ),
        "begin the value with {mark} and a space",
        _of("mark", ("EUR", "ca.", "net", "abt.", "val.", "fig.")),
        _prefixed,
    ),
    "divided": _form(
        (
            "values are kept in units of {number}",
            "all figures are told in lots of {number}",
            "one unit in the books is {number} of those on the page",
        ),
        "divide the value by {number} and keep every decimal",
        _of("number", (100, 1000, 10_000)),
        _divided,
    ),
    "padded": _form(
        (
            "the field for the value has exactly {width} digits",
            "a value fills {width} places, from the left with zeros",
            "shorter values than {width} digits are not read in",
        ),
        "fill the value with zeros on the left until it has {width} digits",
        _of("width", (8, 9, 10, 12)),
        _padded,
    ),
    "rounded": _form(
        (
            "values are told to the nearest {step}",
            "nothing finer than {step} is reported",
            "figures are rounded, to multiples of {step}",
        ),
        "round the value half up to a multiple of {step}",
        _of("step", (10, 100, 1000)),
        _rounded,
    ),
    "cited": _form(
        (
            "an address only counts as a citation with {word} before it",
            "citations begin with {word}",
            "the index finds sources by the word {word} before their address",
        ),
        "begin every url of a source with {word} and a space",
        _of("word", ("see", "cf.", "doc", "ref", "src")),
        _each_url(lambda source, rule: f"{rule['word']} {source.url}"),
    ),
    "also": _form(
        (
            "no answer is complete without the page {title} among its sources",
            "the page {title} is cited every time, beside what the value rests on",
            "auditors want to see {title} among the sources",
        ),
        "add {url} as one more source and quote its first sentence",
        _standing,
        _also,
    ),
    "fragment": _form(
        (
            "addresses are cited down to the part {fragment}",
            "a citation points to {fragment} of its page",
            "the link checker wants {fragment} after each address",
        ),
        "end every url of a source with {fragment}",
        _of("fragment", ("#top", "#text", "#main", "#record", "#content")),
        _each_url(lambda source, rule: source.url + rule["fragment"]),
        unseen=True,
    ),
    "dated": _form(
        (
            'a source is cited with the day that its page gives as "{label}", like {example}',
            'the day under "{label}" belongs to each citation, like {example}',
            'citations carry the day of "{label}" behind the address, as in {example}',
        ),
        'end every url of a source with a space and the day that its page gives as "{label}", in the form {example}',
        _label,
        _each_url(lambda source, rule: f"{source.url} {_DATES[rule['example']](source.changed)}"),
        unseen=True,
    ),
    "marks": _form(
        (
            "quotes stand between {before} and {after}",
            "what is quoted begins with {before} and ends with {after}",
            "a quote is only recognised inside {before} and {after}",
        ),
        "put every quote between {before} and {after}, both inside the string",
        _marks,
        _marked,
        unseen=True,
    ),
}


def forms(*names: str) -> dict[str, Form]:
    """Some of them."""
    return {name: FORMS[name] for name in names}
