"""Environments for reinforcement learning, and scored groups of rollouts.

Importing it makes every suite a Gymnasium id, which is how Gymnasium learns of environments that are not its own:
`import hermes_lab.envs` and then `gymnasium.make("HermesLab/ledger-v0")`, or
`gymnasium.make("hermes_lab.envs:HermesLab/ledger-v0")`. No suite is imported until its environment is made.
"""

import re

import gymnasium

from hermes_lab.tasks import list_suites

for _suite in list_suites():
    if re.fullmatch(r"[\w.-]+", _suite):  # else Gymnasium takes no such name, and one suite must not break the others
        gymnasium.register(
            id=f"HermesLab/{_suite}-v0", entry_point="hermes_lab.envs.gym:HermesLabEnv", kwargs={"suite": _suite}
        )
