"""The text of a `ConfigError`, with and without its field."""

import pickle

import pytest

from hermes_lab.config.schema import AgentConfig
from hermes_lab.errors import ConfigError
from hermes_lab.tools.distributions import check_tools


def test_the_field_stands_before_the_message() -> None:
    error = ConfigError("there are 3 tasks", "suite.count")
    assert (str(error), error.field, error.message) == ("suite.count: there are 3 tasks", "suite.count", error.message)
    assert str(ConfigError("suite.count: there are 3 tasks")) == str(error)


def test_it_survives_the_way_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(ConfigError("there are 3 tasks", "suite.count")))
    assert (str(error), error.field) == ("suite.count: there are 3 tasks", "suite.count")


@pytest.mark.parametrize(
    ("field", "value"), [("toolsets", ("typo",)), ("disabled_tools", ("typo",)), ("distribution", "typo")]
)
def test_an_unknown_name_of_a_tool_names_its_field(field: str, value: object) -> None:
    with pytest.raises(ConfigError) as refused:
        check_tools(AgentConfig.model_validate({field: value}))
    assert refused.value.field == f"agent.{field}"
