"""How every picture looks, and how it becomes a file."""

import itertools
import re
import time
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import pytest
from matplotlib.axes import Axes
from plot_frames import frame_of

from hermes_lab.analysis.plots import style
from hermes_lab.analysis.plots.palette import ARMS, DARK, looks
from hermes_lab.analysis.plots.style import INK, PAPER, figure, legend_below, png, save, shortened, svg
from hermes_lab.analysis.report import charts
from hermes_lab.config.schema import Arm
from hermes_lab.errors import ConfigError


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


def test_an_arm_has_its_colour_under_any_weights_and_each_weights_their_own_look() -> None:
    found = looks(["tuned, skills on", "m untuned, skills on", "tuned, skills off", "off"])
    assert found["tuned, skills on"] == ARMS["skills on"]
    assert found["m untuned, skills on"].color == ARMS["skills on"].color
    assert found["tuned, skills off"].color == found["off"].color == ARMS["skills off"].color
    assert len(set(found.values())) == 4


def test_arms_differ_in_colour_marker_and_line() -> None:
    for one in zip(*ARMS.values(), strict=True):
        assert len(set(one)) == len(ARMS)
    assert set(ARMS) == {f"skills {arm}" if arm in ("on", "off") else arm for arm in get_args(Arm)}


def luminance(color: str) -> float:
    channels = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_colours_are_told_apart_on_light_and_dark_pages() -> None:
    for colors in (list(DARK), list(DARK.values())):
        for one, other in itertools.combinations(colors, 2):
            channels = zip(*([int(c[place : place + 2], 16) for place in (1, 3, 5)] for c in (one, other)), strict=True)
            assert sum(abs(a - b) for a, b in channels) > 75, (one, other)
    assert all(luminance(dark) > 0.3 for dark in DARK.values())


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_suffix_decides_the_format_and_the_same_figure_gives_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    written = []
    for name in ("a", "b"):
        made = figure(4, 3)
        ax = drawn(made.add_subplot())
        written.append(save(ax if name == "a" else made, tmp_path / f"{name}.{suffix}").read_bytes())
        time.sleep(1.1 if name == "a" else 0)  # a date would have another second
    assert written[0] == written[1]
    assert written[0].startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix])
    assert suffix != "svg" or b"A title" in written[0]


def test_another_suffix_is_an_error_that_names_the_formats(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a\.gif: no picture format; give a file that ends in \.png, \.svg, \.pdf"):
        save(figure(), tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())


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


def test_the_report_draws_an_arm_as_the_pictures_do() -> None:
    """Same colour, marker and dashes: both take them from the palette."""
    css = charts.colours()
    for name, look in looks([*ARMS, *map(str, range(42))]).items():
        swatch = str(charts.swatch(look))
        assert f'class="chart swatch {charts.colour(look)}"' in swatch, name
        assert f".{charts.colour(look)} {{ color: light-dark({look.color.lower()}, " in css
        assert ("stroke-dasharray" in swatch) == bool(look.dashes)
    shapes = {name: re.findall(r' d="([^"]*)"', str(charts.swatch(look)))[0] for name, look in ARMS.items()}
    assert len(set(shapes.values())) == len(ARMS)


def test_the_reports_curves_name_their_axes_and_stand_at_the_episodes_n() -> None:
    rows = frame_of([{"arm": arm, "experience": n, "success": n > 1} for arm in ("off", "on") for n in (0, 2, 4)])
    series = {f"skills {arm}": rows[rows["arm"] == arm] for arm in ("off", "on")}
    text = str(charts.learning_curves(series, {}, looks(series)))
    for words in ("solved at the first submission", "tasks seen before", ">0 %<", ">100 %<"):
        assert words in text
    assert "translate" not in text
    places = re.findall(r'<svg x="([\d.]+)%" y="[^"]*" class="mark">', text)
    assert places == 2 * ["9.00", "53.50", "98.00"]
