"""Assembles the report file."""

import base64
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pandas as pd

from hermes_lab.analysis.data.runs import refuse_copies
from hermes_lab.analysis.plots.palette import looks
from hermes_lab.analysis.report import charts, sections
from hermes_lab.analysis.report.chunks import Spool, compressed, pack
from hermes_lab.analysis.report.data import (
    CHANGES,
    OUTCOMES,
    changes,
    load_table,
    run_names,
    usual_order,
    viewing_order,
)
from hermes_lab.analysis.report.findings import Findings, FromSuite, find
from hermes_lab.analysis.report.first_screen import first_screen
from hermes_lab.analysis.report.markup import Markup, element, join
from hermes_lab.analysis.report.skillbook import SkillBook
from hermes_lab.analysis.report.skills_section import skills
from hermes_lab.analysis.report.transcript import encoded
from hermes_lab.errors import ConfigError
from hermes_lab.manifest import OWN_LOOP, RunManifest, read_manifest
from hermes_lab.records import read_episodes, write_atomic

CAP = 50 * 1024 * 1024
"""Bytes of trajectories in a page."""
SCRIPTS = (
    *("text.js", "store.js", "align.js", "steps.js", "viewer.js", "columns.js", "table.js", "search.js", "keys.js"),
    "app.js",
)
"""Concatenated in this order into one script."""
SECTIONS = {
    "verdict": "Verdict",
    "curves": "Curves",
    "arms": "Arms",
    "results": "Results",
    "evaluation": "Tasks",
    "course": "Course",
    "skills": "Skills",
    "transfer": "Transfer",
}
"""Sections linked in the page header, and the episodes."""

_NUMBERS = (
    *("round", "world", "replicate", "experience", "sample", "group", "skills_loaded", "skills_written", "tokens"),
)


class Written(NamedTuple):
    """A written report: size in bytes, episodes, and episodes with an embedded trajectory."""

    size: int
    episodes: int
    embedded: int


def write_report(
    runs: Sequence[Path],
    out: Path,
    *,
    trajectories: int | None = None,
    from_suite: FromSuite | None = None,
    cap: int = CAP,
    seen: Callable[[], None] = lambda: None,
) -> Written:
    """Writes the report of `runs` to `out`, atomically and deterministically.

    Embeds at most `trajectories` trajectories; None embeds as many as fit into `cap` bytes. `seen` is called for every
    episode read. Memory is bounded by the table and the output, not by the size of the runs.

    Raises `ConfigError` if a folder is no run, no run has an episode, or one is given twice or beside a copy.
    """
    refuse_copies(runs)
    manifests = [read_manifest(run) for run in runs]
    frame = load_table(runs)
    if frame.empty:
        raise ConfigError(f"{', '.join(map(str, runs))}: no episodes yet, so there is nothing to report")
    found = find(frame, runs, manifests, from_suite or FromSuite())
    book = SkillBook()
    with tempfile.TemporaryFile() as file:
        numbers = {key: number for number, key in enumerate(zip(frame["run"], frame["key"], strict=True))}
        spool = _spool(runs, numbers, Spool(file), book, seen)
        order = viewing_order(frame, found.pairs)[:trajectories]
        chunks = list(pack(spool, order, cap))
    chunk_of = {n: (c, place) for c, chunk in enumerate(chunks) for place, n in enumerate(chunk.numbers)}
    index = _index(frame, found, chunk_of)
    body = _body(frame, found, manifests, runs, book, len(chunk_of))
    blocks = [_block(f"c{number}", chunk.text) for number, chunk in enumerate(chunks)]
    title = " · ".join(run_names([str(run) for run in runs]).values())
    content = b"".join(_assemble(title, body, _block("index", compressed(msgspec.json.encode(index))), blocks))
    write_atomic(out, content)
    return Written(len(content), len(frame), len(chunk_of))


def _spool(
    runs: Sequence[Path],
    numbers: Mapping[tuple[str, str], int],
    spool: Spool,
    book: SkillBook,
    seen: Callable[[], None],
) -> Spool:
    """Spools the episodes of the table by row number, ignoring those a live run has written since."""
    for run in runs:
        for episode in read_episodes(run):
            if (number := numbers.get((str(run), episode.key))) is not None:
                spool.add(number, encoded(episode))
                book.add(episode)
                seen()
    return spool


def _index(frame: pd.DataFrame, found: Findings, chunk_of: dict[int, tuple[int, int]]) -> dict[str, object]:
    """The episode table as lists by column; name columns are indices plus a list of names."""
    columns: dict[str, object] = {name: frame[name].tolist() for name in _NUMBERS}
    lane_by_lane = frame.sort_values(["run", "arm", "weights", "replicate", "world", "round", "place", "sample"]).index
    columns["order"] = np.argsort(lane_by_lane.to_numpy()).tolist()
    columns["time"] = frame["time"].round(2).tolist()
    columns["change"] = [CHANGES.index(change) for change in changes(frame, found.pairs)]
    columns["outcome"] = [OUTCOMES.index(outcome) for outcome in frame["outcome"]]
    columns["chunk"] = [chunk_of.get(number, (-1, 0))[0] for number in range(len(frame))]
    columns["at"] = [chunk_of.get(number, (-1, 0))[1] for number in range(len(frame))]
    names: dict[str, list[str]] = {"outcome": list(OUTCOMES), "change": list(CHANGES)}
    for name in ("run", "suite", "task_id", "lane", "series", "phase"):
        codes, values = pd.factorize(frame[name])
        columns[name], names[name] = np.asarray(codes).tolist(), [str(value) for value in values]
    names["run"] = list(run_names(names["run"]).values())
    sides = found.sides
    right = frame[sides.by] == sides.after if sides else pd.Series(False, index=frame.index)
    columns["after"] = right.astype(int).tolist()
    return {"count": len(frame), "columns": columns, "names": names}


def _body(
    frame: pd.DataFrame,
    found: Findings,
    manifests: Sequence[RunManifest],
    runs: Sequence[Path],
    book: SkillBook,
    embedded: int,
) -> Markup:
    of_series = looks(sorted(set(frame["series"]), key=usual_order))
    names = list(run_names([str(run) for run in runs]).values())
    used = bool((frame["skills_listed"] > 0).any() or frame["reused"].any() or (frame["skills_written"] > 0).any())
    parts = [
        first_screen(found, frame, list(_agents(manifests, names))),
        sections.curves(found, frame, of_series) if found.learns else None,
        sections.arms(found, used=used),
        sections.evaluations(found),
        sections.weights_by_skills(found),
        sections.course(found) if found.learns else None,
        skills(found, book) if used or found.learns or found.uplifts is not None else None,
        sections.transfer(found) if found.learns else None,
        sections.provenance(manifests, names, frame, embedding(len(frame), embedded)),
    ]
    return join([part for part in parts if part])


def _agents(manifests: Sequence[RunManifest], names: Sequence[str]) -> Iterator[str]:
    """What worked in each run, unless it was the lab's own loop in all of them."""
    if any(manifest.agent for manifest in manifests):
        for manifest, name in zip(manifests, names, strict=True):
            of = f" of {name}" if len(names) > 1 else ""
            model = manifest.config.get("model", {}).get("name", "")
            yield f"agent{of}: {manifest.agent or OWN_LOOP}, {model}"


def _nav(body: Markup) -> Markup:
    """Links to the sections on the page."""
    return join([element("a", title, href=f"#{name}") for name, title in SECTIONS.items() if f'id="{name}"' in body])


def embedding(episodes: int, embedded: int) -> str:
    """Which trajectories the page contains."""
    if embedded == episodes:
        return f"All {episodes:,} trajectories are in this page."
    return (
        f"{embedded:,} of {episodes:,} trajectories are in this page: regressions first, then gains, "
        "then an even sample of the rest. The list below has every episode."
    )


def _assemble(title: str, body: Markup, index: bytes, blocks: Sequence[bytes]) -> Iterator[bytes]:
    """The filled template, trajectories last."""
    style, script = _style(), _script()
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )
    places: dict[str, str | Sequence[bytes]] = {
        "{{policy}}": policy,
        "{{title}}": str(element("title", f"{title} · Hermes Lab")),
        "{{style}}": f"<style>{style}</style>",
        "{{nav}}": _nav(body),
        "{{body}}": body,
        "{{index}}": [index],
        "{{script}}": f"<script>{script}</script>",
        "{{chunks}}": blocks,
    }
    rest = _resource("template.html")
    for place, content in places.items():
        before, rest = rest.split(place)
        yield before.encode()
        yield from [content.encode()] if isinstance(content, str) else content
    yield rest.encode()


def _block(name: str, text: bytes) -> bytes:
    return b'<script type="text/plain" id="%b">%b</script>\n' % (name.encode(), text)


def _style() -> str:
    return _resource("report.css") + charts.colours()


def _script() -> str:
    return '(() => {\n"use strict";\n' + "\n".join(_resource(name) for name in SCRIPTS) + "\n})();"


def _resource(name: str) -> str:
    return resources.files("hermes_lab.analysis.report").joinpath("assets", name).read_text()


def _digest(text: str) -> str:
    """The hash of an inline script or style for the content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
