"""Rules about the form of an answer. Each changes every answer."""

from collections.abc import Callable, Mapping
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from hermes_lab.tasks.rules import Behavior, Literals, load_conventions
from hermes_lab.tasks.web_research._claims import Cite, Claim, Forms, Source, Written, written
from hermes_lab.tasks.web_research._site import Publisher

_SEPARATORS = {"a point": ".", "a space": " ", "an apostrophe": "'", "an underscore": "_"}
_DATES: Mapping[str, Callable[[date], str]] = {
    "(31.05.2024)": lambda day: f"({day.day:02d}.{day.month:02d}.{day.year})",
    "(20240531)": lambda day: f"({day.year}{day.month:02d}{day.day:02d})",
    "(05/31/24)": lambda day: f"({day.month:02d}/{day.day:02d}/{day.year % 100:02d})",
    "(2024/5/31)": lambda day: f"({day.year}/{day.month}/{day.day})",
}


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


def _standing(site_config: Any) -> list[Literals]:
    publisher: Publisher = site_config.publisher
    return [
        {"title": page.title, "url": page.url, "line": page.line, "changed": page.changed}
        for page in publisher.standing
    ]


def _also(claim: Claim, rule: Literals) -> Written:
    plain = written(claim)
    source = Source(rule["url"], rule["line"], rule["line"], rule["changed"])
    return Written(plain.value, (*plain.cites, Cite(source.url, source)))


FORMS: Forms = load_conventions(
    __file__,
    {
        "grouped": Behavior(_grouped),
        "prefix": Behavior(_prefixed),
        "divided": Behavior(_divided),
        "padded": Behavior(_padded),
        "rounded": Behavior(_rounded),
        "cited": Behavior(_each_url(lambda source, rule: f"{rule['word']} {source.url}")),
        "also": Behavior(_also, _standing),
        "fragment": Behavior(_each_url(lambda source, rule: source.url + rule["fragment"])),
        "dated": Behavior(
            _each_url(lambda source, rule: f"{source.url} {_DATES[rule['example']](source.changed)}"),
            lambda site_config: [
                {"label": site_config.publisher.changed_label, "example": example} for example in _DATES
            ],
        ),
        "marks": Behavior(_marked),
    },
)


def forms(*names: str) -> Forms:
    """The rules with these names."""
    return {name: FORMS[name] for name in names}
