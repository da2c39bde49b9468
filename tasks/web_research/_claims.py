"""The result of research: a value, and a quoted line from each page that supports it."""

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple, TypeVar

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.data_family import DataFamily
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import read_json
from hermes_lab.tasks.family import Action, Criterion, Entity, Rule, TaskInstance, criterion
from hermes_lab.tasks.rules import Convention, Literals, rule_types
from hermes_lab.tasks.web_research._site import delivery
from hermes_lab.tasks.words import load_words
from hermes_lab.types import Page

ANSWER = "answer.json"
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_SHORTEST_QUOTE, _LONGEST = 8, 400
_MOST_SOURCES = 30


class Source(NamedTuple):
    """A page that supports a value. A quote must contain `needle`, which is part of `line`."""

    url: str
    line: str
    needle: str
    changed: date


class Claim(NamedTuple):
    """A value with `decimals` decimals, and its sources."""

    number: Decimal
    decimals: int
    sources: tuple[Source, ...]


class Cite(NamedTuple):
    """A citation of a source: its URL, and its quote between two marks."""

    url: str
    source: Source
    before: str = ""
    after: str = ""

    @property
    def quote(self) -> str:
        return f"{self.before}{self.source.line}{self.after}"


class Written(NamedTuple):
    """A claim in the form required in `answer.json`. `exact`: the value is compared as text, not as a number."""

    value: str
    cites: tuple[Cite, ...]
    exact: bool = False


def written(claim: Claim) -> Written:
    """The default form: plain digits and full URLs."""
    return Written(f"{claim.number:.{claim.decimals}f}", tuple(Cite(source.url, source) for source in claim.sources))


Selections = Mapping[str, Convention[Any, Callable[[Any, Literals], Claim]]]
"""Rules about which facts count. Each computes the claim from a task instance and the literals of the rule."""
Forms = Mapping[str, Convention[Any, Callable[[Claim, Literals], Written]]]
"""Rules about the form of an answer."""


@dataclass(frozen=True, kw_only=True)
class Question(TaskInstance):
    """One question."""

    outputs: tuple[str, ...] = (ANSWER,)
    query: str
    reads: tuple[tuple[str, ...], ...]
    """The URLs to read, per call. Earlier pages link to later ones."""


H = TypeVar("H")
Q = TypeVar("Q", bound=Question)


class Research(DataFamily[H, Q]):
    """A family whose tasks are questions about a corpus of pages. A rule is one of its `selections` or `forms`.

    `words.yaml` is in the folder of `module_file`, the calling module's `__file__`.
    """

    results = 10
    """Results per search; enough to include the pages to read."""

    def __init__(self, module_file: str, selections: Selections, forms: Forms) -> None:
        super().__init__(module_file, {**rule_types(selections), **rule_types(forms)})
        self._selections = selections
        self._forms = forms
        self._lines = load_words(module_file, dict[str, str], "lines")

    def ask(self, entity: Entity, draws: Draws, *paths: str, complaint: str = "", **names: Any) -> str:
        """The prompt: a request, and instructions for delivering the answer."""
        request = super().ask(entity, draws, *paths, complaint=complaint, **names)
        return f"{request} {delivery(entity, draws, self._lines)}"

    @abstractmethod
    def plain(self, instance: Q) -> Claim:
        """The claim without a rule."""

    def find(self, instance: Q, rule: Rule | None) -> Written:
        """The expected answer under `rule`."""
        literals = dict(rule.literals) if rule else {}
        if rule and rule.type in self._selections:
            return written(self._selections[rule.type].apply(instance, literals))
        claim = self.plain(instance)
        if rule is None:
            return written(claim)
        return self._forms[rule.type].apply(claim, literals)

    async def judge(
        self, instance: Q, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Judges `answer.json` by the pages of the instance, which are not in the workspace."""
        found = await read_json(workspace, ANSWER, limit=50_000)
        value, given = _read(found)
        right = self.find(instance, rule)
        return (
            criterion("answer_present", found is not None, f"{ANSWER} is missing or not valid JSON"),
            criterion("schema", value is not None, f"{ANSWER} does not have the requested form"),
            _quoted(given, instance.pages),
            criterion("value", value is not None and _same(value, right), "the value is wrong", ruled=True),
            criterion("sources", _cited(given, right.cites), "the sources are wrong", ruled=True),
        )

    def solve(self, instance: Q, rule: Rule | None) -> tuple[Action, ...]:
        """A search, the pages to read, and the answer."""
        right = self.find(instance, rule)
        sources = [{"url": cite.url, "quote": cite.quote} for cite in right.cites]
        content = json.dumps({"value": right.value, "sources": sources}, ensure_ascii=False) + "\n"
        return (
            Action("web_search", {"query": instance.query, "limit": self.results}, "I search the web."),
            *(
                Action("web_extract", {"urls": list(urls)}, "I read these pages.")
                for urls in self.steps(instance, rule)
            ),
            Action("write_file", {"path": ANSWER, "content": content}, "I write the answer with its sources."),
        )

    def steps(self, instance: Q, rule: Rule | None) -> list[tuple[str, ...]]:
        """The URLs to read, per call. The last call reads the cited pages that have not been read yet."""
        steps = list(instance.reads)
        seen = {url for step in steps for url in step}
        left = [cite.source.url for cite in self.find(instance, rule).cites if cite.source.url not in seen]
        return steps + ([tuple(left)] if left else [])

    def explore(self, instance: Q) -> tuple[Action, ...]:
        """No calls, since `solve` starts with a search."""
        return ()


def _read(found: object) -> tuple[str | None, list[tuple[str, str]]]:
    """The value and the (url, quote) pairs of an answer; None and [] if it has the wrong form."""
    if not isinstance(found, dict) or found.keys() != {"value", "sources"}:
        return None, []
    value, sources = found["value"], found["sources"]
    if not _is_text(value) or not isinstance(sources, list) or not 1 <= len(sources) <= _MOST_SOURCES:
        return None, []
    pairs = []
    for source in sources:
        if not isinstance(source, dict) or source.keys() != {"url", "quote"}:
            return None, []
        if not _is_text(source["url"]) or not _is_text(source["quote"]):
            return None, []
        pairs.append((source["url"], source["quote"]))
    return value, pairs


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST


def _quoted(given: Sequence[tuple[str, str]], pages: Sequence[Page]) -> Criterion:
    """Whether every quote is verbatim from a line of its page, regardless of the quotation marks and the form of the
    URL."""
    wrong = 0
    for url, quote in given:
        page = _page(url, pages)
        inner = quote.strip("«»„“”‹›[]<> ")
        wrong += page is None or not _is_line_in(inner, page.text)
    return criterion("quotes", bool(given) and not wrong, "a quote does not occur on the page that it cites")


def _page(cited: str, pages: Sequence[Page]) -> Page | None:
    """The page whose URL is in `cited`; if there are several, the one with the longest URL."""
    held = [page for page in pages if page.status < 400 and page.url.partition("://")[2] in cited]
    return max(held, key=lambda page: len(page.url), default=None)


def _is_line_in(quote: str, text: str) -> bool:
    # A quote without line breaks is within one line of the text.
    return len(quote) >= _SHORTEST_QUOTE and "\n" not in quote and quote in text


def _cited(given: Sequence[tuple[str, str]], right: Sequence[Cite]) -> bool:
    """Whether exactly the expected sources are cited, once each and in any order, with quotes of the evidence."""
    quotes = dict(given)
    if len(quotes) < len(given) or quotes.keys() != {cite.url for cite in right}:
        return False
    return all(_shows(quotes[cite.url], cite) for cite in right)


def _shows(quote: str, cite: Cite) -> bool:
    if not (quote.startswith(cite.before) and quote.endswith(cite.after)):
        return False
    inner = quote[len(cite.before) : len(quote) - len(cite.after)].strip()
    return len(inner) >= _SHORTEST_QUOTE and inner in cite.source.line and cite.source.needle in inner


def _same(value: str, right: Written) -> bool:
    if right.exact:
        return value == right.value
    if not _PLAIN_NUMBER.fullmatch(value):
        return False
    try:
        return Decimal(value) == Decimal(right.value)
    except InvalidOperation:
        return False
