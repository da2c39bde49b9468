import subprocess
import sys
from collections import Counter

import pytest

from hermes_lab.config.schema import AgentConfig
from hermes_lab.errors import ConfigError
from hermes_lab.tools.distributions import DISTRIBUTIONS, check_tools, draw_toolsets


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_every_distribution_can_be_drawn_from(name: str) -> None:
    check_tools(AgentConfig(distribution=name))
    for n in range(200):
        drawn = draw_toolsets(name, 0, n)
        assert drawn
        assert [toolset for toolset in DISTRIBUTIONS[name] if toolset in drawn] == list(drawn)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_toolsets_are_drawn_as_often_as_they_should_be(name: str) -> None:
    draws = 4_000
    drawn = Counter(toolset for n in range(draws) for toolset in draw_toolsets(name, "seed", n))
    nothing = 1.0
    for weight in DISTRIBUTIONS[name].values():
        nothing *= 1 - weight
    for toolset, weight in DISTRIBUTIONS[name].items():
        share = weight / (1 - nothing)
        assert drawn[toolset] / draws == pytest.approx(share, abs=5 * (share * (1 - share) / draws) ** 0.5)


def test_toolsets_are_drawn_independently_of_each_other() -> None:
    pairs = Counter(
        ("file" in drawn, "todo" in drawn) for drawn in (draw_toolsets("balanced", n) for n in range(4_000))
    )
    together = pairs[True, True] / pairs.total()
    assert together == pytest.approx(0.7 * 0.4, abs=0.04)


def test_a_draw_depends_on_its_key_alone() -> None:
    keys = [(seed, f"task-{n}") for seed in (1, 2) for n in range(5)]
    script = (
        "from hermes_lab.tools.distributions import draw_toolsets\n"
        f"print([draw_toolsets('uniform', *key) for key in {keys!r}])"
    )
    elsewhere = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    drawn = [draw_toolsets("uniform", *key) for key in keys]
    assert elsewhere.strip() == repr(drawn)
    assert len(set(drawn)) > 3


def test_an_unknown_distribution_names_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"agent.distribution: no distribution 'all'; there are: default, minimal"):
        draw_toolsets("all", 1)
    with pytest.raises(ConfigError, match="no distribution 'all'"):
        check_tools(AgentConfig(distribution="all"))


def test_toolsets_and_disabled_tools_of_a_configuration_are_checked() -> None:
    check_tools(AgentConfig(toolsets=("core", "terminal", "read_file"), disabled_tools=("patch",)))
    with pytest.raises(ConfigError, match=r"agent.toolsets: no toolset 'fil'; did you mean file\?"):
        check_tools(AgentConfig(toolsets=("fil",)))
    with pytest.raises(ConfigError, match=r"agent.disabled_tools: no tool 'pach'; did you mean patch\?"):
        check_tools(AgentConfig(disabled_tools=("pach",)))
