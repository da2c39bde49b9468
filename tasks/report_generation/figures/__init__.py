"""The family `figures`: an HTML page of figures with captions, sources and hashes, in the form a department wants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from string import Template
from typing import NamedTuple

from hermes_lab.protocols import Workspace
from hermes_lab.tasks.draws import Draws
from hermes_lab.tasks.evidence import inputs_untouched, read_text
from hermes_lab.tasks.family import Action, Criterion, Entity, Rule, criterion, shell
from hermes_lab.tasks.report_generation._html import LONGEST, Element, read_html
from hermes_lab.tasks.report_generation._report import Report, ReportInstance
from hermes_lab.tasks.report_generation.figures.rules import CONVENTIONS, Custom, Series, SiteConfig, Table, digits_of

REPORT = "report.html"
SHEET = "figures.md"
FIGURES = 4
STEP, WIDTH, HEIGHT = 30, 20, 200
TOLERANCE = 0.06
"""Of heights, which have one decimal in reports."""


@dataclass(frozen=True, kw_only=True)
class Tables(ReportInstance[SiteConfig]):
    """A year of tables to draw."""

    folder: str
    tables: tuple[Table, ...]


class Bar(NamedTuple):
    """A bar of a figure."""

    position: int
    height: float
    label: str
    kind: str = ""


class Figure(NamedTuple):
    """The judged parts of a figure."""

    number: str
    caption: str
    source: str
    digest: str
    bars: tuple[Bar, ...]


class Figures(Report[SiteConfig, Tables, Custom]):
    """HTML figures of tables.

    Every table has an empty cell and a unique highest, lowest and last number. The totals of the tables are ordered
    neither as in the sheet nor alphabetically. So every rule changes the report.
    """

    def site_config(self, entity: Entity, kind: str, draws: Draws) -> SiteConfig:
        """The series of a department."""
        words = self.words[entity.split]
        series = [Series(*each) for each in draws.sample(words.series, FIGURES)]
        while _sorted([each.title for each in series]):
            series = draws.shuffled(series)
        return SiteConfig(
            title=draws.choice(words.titles),
            month=draws.choice(words.months),
            series=tuple(series),
            classes=tuple(draws.choice(words.classes)),
            highlights=tuple(words.highlights),
            gaps=tuple(words.gaps),
        )

    def instance(self, entity: Entity, site_config: SiteConfig, draws: Draws) -> Tables:
        """Four tables of 9 to 12 months."""
        words = self.words[entity.split]
        year, folder = draws.integer(2012, 2025), entity.slug("data")
        tables = _draw_tables(site_config, year, draws)
        files = {f"{folder}/{table.series.stem}.csv": table.text for table in tables}
        return Tables(
            request=self.ask(entity, draws, folder, year=year, folder=folder),
            files={**files, SHEET: Template(words.sheet).substitute(_sheet_names(site_config))},
            inputs=(*files, SHEET),
            outputs=(REPORT,),
            folder=folder,
            site_config=site_config,
            tables=tables,
        )

    def right_of(self, instance: Tables, rule: Rule | None) -> tuple[Figure, ...]:
        """The expected figures under `rule`."""
        custom = self.strategy(rule)
        tables = sorted(instance.tables, key=custom.order) if custom.order else instance.tables
        return tuple(_figure(number, table, custom) for number, table in enumerate(tables, 1))

    async def judge(
        self, instance: Tables, rule: Rule | None, workspace: Workspace, answer: str | None
    ) -> Sequence[Criterion]:
        """Compares `report.html` with the expected figures, one criterion per figure."""
        text = await read_text(workspace, REPORT, limit=LONGEST)
        page = read_html(text) if text else None
        found = list(page.find("figure")) if page else []
        headings = [each.text for each in page.find("h1")] if page else []
        read = [_read_figure(each, instance.site_config) for each in found]
        ids = [each.attributes.get("id") for each in found]
        return (
            criterion("report_present", page is not None, f"{REPORT} is missing or not a readable page"),
            await inputs_untouched(workspace, instance.files, instance.inputs),
            criterion(
                "heading", headings == [instance.site_config.title], f"the only h1 must be {instance.site_config.title}"
            ),
            criterion(
                "figures",
                None not in read and ids == [f"fig-{number}" for number in range(1, FIGURES + 1)],
                f"it needs {FIGURES} figures with ids, each with a picture and the four spans that {SHEET} shows",
            ),
            *_figures_right(read, self.right_of(instance, rule)),
        )

    def slots(self, instance: Tables) -> Mapping[str, str]:
        """Adds the figures and the classes of their spans."""
        spans = zip(("number", "caption", "source", "hash"), instance.site_config.classes, strict=True)
        figures = repr([tuple(series) for series in instance.site_config.series])
        return {**super().slots(instance), "figures": figures, **{f"{span}_class": name for span, name in spans}}

    def explore(self, instance: Tables) -> tuple[Action, ...]:
        """Reads the sheet and the tables."""
        return (
            shell(f"cat {SHEET}", "First I read how figures are made here."),
            shell(f"head -n 4 {instance.folder}/*.csv", "Then I look at the tables."),
        )


def _figure(number: int, table: Table, custom: Custom) -> Figure:
    series, rows = table.series, len(table.rows)
    return Figure(
        number=f"{custom.word} {custom.numeral(number)}",
        caption=custom.caption.format(title=series.title, unit=series.unit),
        source=custom.source.format(stem=series.stem, upper=series.stem.upper(), rows=rows),
        digest=digits_of(table, custom),
        bars=tuple(_bars(table, custom)),
    )


def _bars(table: Table, custom: Custom) -> list[Bar]:
    values = [value for _, value in table.rows]
    if custom.carry:
        values = [values[n + custom.carry] if value is None else value for n, value in enumerate(values)]
    full = custom.full or max(value for value in values if value is not None)
    bars = []
    for position, ((month, _), value) in enumerate(zip(table.rows, values, strict=True)):
        label = custom.month(*month.split("-"))
        if value is not None:
            bars.append(Bar(position, value / full * HEIGHT, label))
        elif custom.gap:
            bars.append(Bar(position, 0.0, label, custom.gap))
    if custom.highlight:
        chosen = custom.highlight([round(bar.height * 1000) for bar in bars])
        bars[chosen] = bars[chosen]._replace(kind=custom.mark)
    return bars


def _sorted(items: Sequence[str]) -> bool:
    return list(items) in (sorted(items), sorted(items, reverse=True))


def _draw_tables(site_config: SiteConfig, year: int, draws: Draws) -> tuple[Table, ...]:
    months, levels = draws.integer(9, 12), _levels(site_config, draws)
    return tuple(
        _draw_table(series, site_config, year, months, level, draws)
        for series, level in zip(site_config.series, levels, strict=True)
    )


def _levels(site_config: SiteConfig, draws: Draws) -> list[int]:
    """The magnitude of the numbers of each series; ordered neither as in the sheet nor by title."""
    titles = [series.title for series in site_config.series]
    while True:
        levels = draws.shuffled(range(FIGURES))
        by_title = [levels[titles.index(title)] for title in sorted(titles)]
        if all(list(order) not in (sorted(order), sorted(order, reverse=True)) for order in (levels, by_title)):
            return levels


def _draw_table(series: Series, site_config: SiteConfig, year: int, months: int, level: int, draws: Draws) -> Table:
    """A table of different numbers in 60..859, with one empty cell that is neither the first nor the last."""
    empty = draws.integer(1, months - 2)
    values: list[int | None] = []
    while len(values) < months:
        value = draws.integer(60 + 200 * level, 259 + 200 * level)
        if value not in values:
            values.append(value)
    values[empty] = None
    rows = tuple((f"{year}-{month:02d}", value) for month, value in enumerate(values, 1))
    lines = [f"{month},{'' if value is None else value}\n" for month, value in rows]
    return Table(series, rows, f"{site_config.month},{series.unit.replace(' ', '_')}\n{''.join(lines)}")


def _sheet_names(site_config: SiteConfig) -> dict[str, str]:
    number, caption, source, digest = site_config.classes
    first = site_config.series[0]
    listed = [f"    {n}. {each.stem}.csv: {each.title}, in {each.unit}" for n, each in enumerate(site_config.series, 1)]
    return {
        "title": site_config.title,
        "list": "\n".join(listed),
        "number": number,
        "caption": caption,
        "source": source,
        "hash": digest,
        "first": f"{first.title} ({first.unit})",
        "file": f"{first.stem}.csv",
        "month": site_config.month,
    }


def _read_figure(element: Element, site_config: SiteConfig) -> Figure | None:
    """The content of a figure; None if a part is missing or repeated."""
    pictures, captions = list(element.find("svg")), list(element.find("figcaption"))
    if len(pictures) != 1 or len(captions) != 1 or any(element.find("figure")):
        return None
    spans = list(element.find("span"))
    texts = [[span.text for span in spans if span.attributes.get("class") == kind] for kind in site_config.classes]
    if any(len(found) != 1 for found in texts):
        return None
    bars = [_read_bar(rect) for rect in pictures[0].find("rect")]
    number, caption, source, digest = (found[0] for found in texts)
    return Figure(number, caption, source, digest, tuple(bar for bar in bars if bar)) if None not in bars else None


def _read_bar(rect: Element) -> Bar | None:
    """A bar; None if it is off the baseline or the grid, or has attributes that the sheet does not list."""
    try:
        x, y, width, height = (float(rect.attributes[name]) for name in ("x", "y", "width", "height"))
    except (KeyError, ValueError):
        return None
    fits = x % STEP == 0 and width == WIDTH and abs(y + height - HEIGHT) <= 2 * TOLERANCE
    known = set(rect.attributes) <= {"x", "y", "width", "height", "data-label", "class"}
    if not fits or not known:
        return None
    return Bar(int(x) // STEP, height, rect.attributes.get("data-label", ""), rect.attributes.get("class", ""))


def _same_bar(found: Bar, right: Bar) -> bool:
    near = isclose(found.height, right.height, rel_tol=0, abs_tol=TOLERANCE)
    return near and found._replace(height=0) == right._replace(height=0)


def _figures_right(found: Sequence[Figure | None], right: Sequence[Figure]) -> list[Criterion]:
    criteria = []
    for position, wanted in enumerate(right):
        figure = found[position] if position < len(found) else None
        wrong = _wrong(figure, wanted) if figure else list(wanted._fields)
        reason = f"figure {position + 1} from the top: wrong {', '.join(wrong)}" if wrong else ""
        criteria.append(Criterion(f"figure_{position + 1}", 1 - len(wrong) / len(wanted), reason, ruled=True))
    return criteria


def _wrong(figure: Figure, wanted: Figure) -> list[str]:
    """The names of the wrong parts of a figure."""
    bars = len(figure.bars) == len(wanted.bars) and all(map(_same_bar, figure.bars, wanted.bars))
    parts = [name for name in Figure._fields[:-1] if getattr(figure, name) != getattr(wanted, name)]
    return parts if bars else [*parts, "bars"]


FAMILY = Figures(__file__, CONVENTIONS, Custom())
