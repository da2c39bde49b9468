"""Lists environments and methods for training."""

from typing import Any

from hermes_lab.tools.registry import ToolContext, tool


@tool(toolset="rl", parallel=True)
def rl_list_environments(ctx: ToolContext) -> dict[str, Any]:
    """List the environments (task suites) for which a LoRA training can be proposed, and the methods.
    {rl_select_environment: Choose one with rl_select_environment.}
    """
    from hermes_lab.tasks.registry import domains, list_suites
    from hermes_lab.training.choices import templates
    from hermes_lab.training.tools.answers import told

    del ctx
    with told():
        families = domains()
        inside = {name for members in families.values() for name in members}
        others = [name for name in list_suites() if name not in families and name not in inside]
        return {"environments": families, "others": others, "methods": templates()}
