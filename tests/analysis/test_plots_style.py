"""How every picture looks, and how it becomes a file."""

import re
from xml.etree import ElementTree

import pytest
from matplotlib.axes import Axes

from hermes_lab.analysis.plots import style
from hermes_lab.analysis.plots.style import INK, PAPER, figure, legend_below, looks, png, shortened, svg


def drawn(ax: Axes) -> Axes:
    style.dress(ax, "A title", "across", "up")
    ax.plot([0, 1], [0, 1], "o-", label="a line", markeredgecolor=PAPER)
    legend_below(ax, "a note")
    return ax


def test_usual_arms_keep_their_look_whatever_stands_beside_them() -> None:
    together = looks(["other", "placebo", "skills off", "skills on"])
    assert list(together) == ["skills on", "skills off", "placebo", "other"]
    for name, look in together.items():
        if name != "other":
            assert looks([name]) == {name: look}
    assert len(set(together.values())) == 4


def test_many_series_have_different_looks() -> None:
    assert len(set(looks(map(str, range(42))).values())) == 42


def test_svg_takes_the_colours_of_its_page() -> None:
    made = figure(4, 3)
    drawn(made.add_subplot())
    text = svg(made)
    assert INK not in text
    assert PAPER not in text
    assert text.count("currentColor") > 5
    assert "Canvas" in text
    assert "#123456" in svg(made, ink="#123456")


def test_svg_is_one_element_that_styles_nothing_but_itself() -> None:
    made = figure(4, 3)
    drawn(made.add_subplot())
    root = ElementTree.fromstring(svg(made))
    assert root.tag.endswith("svg")
    assert not [node for node in root.iter() if node.tag.endswith("}style")]
    words = "".join(root.itertext())
    assert "A title" in words
    assert "a note" in words


def test_svgs_of_one_page_share_no_id_and_name_only_their_own() -> None:
    ids = {}
    for name in ("one", "two"):
        made = figure(4, 3)
        drawn(made.add_subplot())
        text = svg(made, name=name)
        ids[name] = set(re.findall(r' id="([^"]*)"', text))
        assert set(re.findall(r'(?:url\(#|href="#)([^")]*)', text)) <= ids[name]
    assert not ids["one"] & ids["two"]


def test_the_same_figure_gives_the_same_svg() -> None:
    texts = set()
    for _ in range(2):
        made = figure(4, 3)
        drawn(made.add_subplot())
        texts.add(svg(made))
    assert len(texts) == 1


def test_a_legend_covers_no_part_of_its_axes() -> None:
    made = figure(6, 4)
    ax = drawn(made.add_subplot())
    png(made)
    legend = ax.get_legend()
    assert legend is not None
    assert legend.get_window_extent().y1 <= ax.get_window_extent().y0


def test_long_names_keep_both_ends() -> None:
    assert shortened("ledger", 10) == "ledger"
    short = shortened("ledger-of-the-market-desk-17", 11)
    assert short == "ledge…sk-17"


@pytest.mark.parametrize(("count", "written"), [(40, True), (41, False)])
def test_too_many_names_are_counted_instead(count: int, written: bool) -> None:
    ax = figure().add_subplot()
    style.named_rows(ax, [f"row {i}" for i in range(count)])
    assert bool(len(ax.get_yticks())) is written
    assert (ax.get_ylabel() == f"{count} rows") is not written
