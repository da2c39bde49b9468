"""Named distributions of toolsets. A batch draws the toolsets of each task from one, for more varied data."""

import hashlib
import json
from itertools import count

from hermes_lab.config.schema import AgentConfig
from hermes_lab.errors import ConfigError
from hermes_lab.tools.toolbox import check_toolsets

_ALL = ("shell", "file", "code_execution", "todo", "skills")

DISTRIBUTIONS: dict[str, dict[str, float]] = {
    "default": dict.fromkeys(_ALL, 1.0),
    "minimal": {"terminal": 1.0},
    "uniform": dict.fromkeys(_ALL, 0.5),
    "balanced": {"shell": 0.8, "file": 0.7, "code_execution": 0.4, "todo": 0.4, "skills": 0.6},
    "terminal_heavy": {"shell": 0.97, "file": 0.3, "code_execution": 0.1, "todo": 0.2, "skills": 0.3},
    "file_heavy": {"file": 0.97, "terminal": 0.5, "code_execution": 0.2, "todo": 0.2, "skills": 0.3},
    "code_heavy": {"code_execution": 0.97, "file": 0.6, "terminal": 0.4, "todo": 0.2, "skills": 0.3},
    "skills_heavy": {"skills": 1.0, "terminal": 0.9, "file": 0.5, "todo": 0.2},
}
"""Name -> toolset -> probability; each toolset is drawn independently. None has `clarify`, since nobody can be asked in
a batch."""


def draw_toolsets(name: str, *key: object) -> tuple[str, ...]:
    """Draws toolsets from the distribution `name`, deterministically for a `key` such as a seed and a task.

    An empty draw is repeated, so a toolset is drawn with its probability divided by that of a nonempty draw.
    """
    weights = _distribution(name)
    for attempt in count():
        drawn = tuple(toolset for toolset, weight in weights.items() if _uniform(name, attempt, toolset, *key) < weight)
        if drawn:
            return drawn
    raise AssertionError


def check_tools(agent: AgentConfig) -> None:
    """Raises `ConfigError` if a toolset, distribution or disabled tool is unknown, or a toolset is unavailable."""
    toolsets = tuple(_distribution(agent.distribution)) if agent.distribution else agent.toolsets
    check_toolsets(toolsets, agent.disabled_tools)


def _distribution(name: str) -> dict[str, float]:
    if name not in DISTRIBUTIONS:
        known = ", ".join(DISTRIBUTIONS)
        raise ConfigError(f"no distribution {name!r}; there are: {known}", "agent.distribution")
    return DISTRIBUTIONS[name]


def _uniform(*key: object) -> float:
    """Returns a number in [0, 1) that depends only on the key; `hash` would differ between processes."""
    digest = hashlib.sha256(json.dumps([str(part) for part in key]).encode()).digest()
    return int.from_bytes(digest[:7]) / (1 << 56)
