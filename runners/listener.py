"""Shows a run to a person, in a terminal or in a notebook's output."""

import sys
from collections.abc import Callable

from hermes_lab.runners import output
from hermes_lab.runners.engine.execute import Listener, RunPlan
from hermes_lab.runners.engine.tally import Progress, Quiet, Tally
from hermes_lab.runners.experiments.experiment_plan import plan_experiment


class ShownListener(Listener):
    """Prints to stderr, and to a notebook's stdout, since a notebook marks stderr as an error. With `quiet`, it prints
    warnings only."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._notebook = _in_notebook()
        self._say: Callable[[str], None] = output.say
        if quiet:
            self._say = output.say_nothing
        elif self._notebook:
            self._say = print

    def begin(self, plan: RunPlan, tally: Tally) -> None:
        """Prints the plan of an experiment."""
        if plan.command == "learn" and not self._quiet:
            self._say(str(plan_experiment(plan.config, plan.lanes, tally.budget, tally.total("finished"))))

    def message(self, line: str) -> None:
        """Prints it."""
        self._say(line)

    def warning(self, line: str) -> None:
        """Prints it to stderr, also when quiet."""
        output.say(line)

    def progress(self, tally: Tally) -> Progress:
        """A table in a notebook or a terminal, lines anywhere else."""
        if self._quiet:
            return Quiet(tally)
        from hermes_lab.runners.progress import LiveTable, NotebookTable, Plain

        if self._notebook:
            return NotebookTable(tally)
        if sys.stderr.isatty():
            from rich.console import Console

            return LiveTable(tally, Console(stderr=True))
        return Plain(tally, self._say)


def _in_notebook() -> bool:
    """Whether this is the kernel of a notebook."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell else None
    return getattr(found, "kernel", None) is not None
