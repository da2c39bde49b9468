"""The page of the view. It shares style, transcripts and list with the report, and builds nothing from HTML texts."""

from importlib import resources

from hermes_lab.analysis.report.charts import colours

SHARED = ("text.js", "align.js", "steps.js", "viewer.js", "table.js", "keys.js")
"""Scripts of the report."""
OWN = ("live_store.js", "live_filters.js", "live_curves.js", "live.js")
"""Scripts of the view, in `assets`."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""The content security policy: the page's own files and requests, and nothing else."""


def html() -> str:
    """`view.html`."""
    return _own("view.html")


def style() -> str:
    """The report's style sheet, and what the view adds."""
    return _report("report.css") + colours() + _own("view.css")


def script() -> str:
    """All scripts as one module."""
    return "\n".join([*map(_report, SHARED), *map(_own, OWN)])


def _report(name: str) -> str:
    return resources.files("hermes_lab.analysis.report").joinpath("assets", name).read_text()


def _own(name: str) -> str:
    return resources.files("hermes_lab.runners.view").joinpath("assets", name).read_text()
