"""Hermes Lab: run a self-improving tool-using agent, measure whether it got better, and train on what it did.

`import hermes_lab as lab` is the library for scripts and notebooks: `run`, `experiment`, `plan`, `load`, `episodes`,
`fit`, `plot`, `compare`, `report`, and what extensions use. Each name is imported when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes_lab.analysis.comparison.verdict import ComparisonResult as ComparisonResult
    from hermes_lab.analysis.curves import Curve as Curve
    from hermes_lab.analysis.curves import CurveParameter as CurveParameter
    from hermes_lab.analysis.curves.approach import Approach as Approach
    from hermes_lab.analysis.fitting.result import Fit as Fit
    from hermes_lab.config.schema import RunConfig as RunConfig
    from hermes_lab.errors import ConfigError as ConfigError
    from hermes_lab.errors import HermesLabError as HermesLabError
    from hermes_lab.errors import InfraError as InfraError
    from hermes_lab.errors import ToolError as ToolError
    from hermes_lab.models.scripted import TaskAwarePolicy as TaskAwarePolicy
    from hermes_lab.protocols import ModelClient as ModelClient
    from hermes_lab.protocols import Sandbox as Sandbox
    from hermes_lab.protocols import Suite as Suite
    from hermes_lab.protocols import Workspace as Workspace
    from hermes_lab.runners.api import Run as Run
    from hermes_lab.runners.api import compare as compare
    from hermes_lab.runners.api import episodes as episodes
    from hermes_lab.runners.api import experiment as experiment
    from hermes_lab.runners.api import fit as fit
    from hermes_lab.runners.api import load as load
    from hermes_lab.runners.api import load_config as load_config
    from hermes_lab.runners.api import plan as plan
    from hermes_lab.runners.api import plot as plot
    from hermes_lab.runners.api import report as report
    from hermes_lab.runners.api import run as run
    from hermes_lab.suites import OracleSuite as OracleSuite
    from hermes_lab.suites import RuleAwareSuite as RuleAwareSuite
    from hermes_lab.suites import SessionSuite as SessionSuite
    from hermes_lab.suites import TaskSession as TaskSession
    from hermes_lab.tasks.conversation import Conversation as Conversation
    from hermes_lab.tasks.conversation import go_on as go_on
    from hermes_lab.tasks.family import Action as Action
    from hermes_lab.tools.paths import file_path as file_path
    from hermes_lab.tools.registry import Tool as Tool
    from hermes_lab.tools.registry import ToolContext as ToolContext
    from hermes_lab.tools.registry import tool as tool
    from hermes_lab.tools.scratch import run_script as run_script
    from hermes_lab.types import Episode as Episode
    from hermes_lab.types import Task as Task
    from hermes_lab.types import Verdict as Verdict

__version__ = "0.1.0"

_NAMES = {
    "runners.api": (
        *("Run", "compare", "episodes", "experiment", "fit", "load", "load_config", "plan", "plot", "report", "run"),
    ),
    "protocols": ("ModelClient", "Sandbox", "Suite", "Workspace"),
    "suites": ("OracleSuite", "RuleAwareSuite", "SessionSuite", "TaskSession"),
    "types": ("Episode", "Task", "Verdict"),
    "tools.registry": ("Tool", "ToolContext", "tool"),
    "tools.paths": ("file_path",),
    "tools.scratch": ("run_script",),
    "tasks.conversation": ("Conversation", "go_on"),
    "tasks.family": ("Action",),
    "models.scripted": ("TaskAwarePolicy",),
    "analysis.comparison.verdict": ("ComparisonResult",),
    "analysis.curves": ("Curve", "CurveParameter"),
    "analysis.curves.approach": ("Approach",),
    "analysis.fitting.result": ("Fit",),
    "config.schema": ("RunConfig",),
    "errors": ("ConfigError", "HermesLabError", "InfraError", "ToolError"),
}
_MODULES = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names}

__all__ = ["__version__", *sorted(_MODULES)]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
