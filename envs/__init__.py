"""Environments for reinforcement learning, and scored groups of rollouts.

Importing this package registers every suite with Gymnasium:
`import hermes_lab.envs` and then `gymnasium.make("HermesLab/ledger-v0")`, or
`gymnasium.make("hermes_lab.envs:HermesLab/ledger-v0")`. Suites of worlds with hidden rules also have an environment of
learning episodes, `HermesLab/ledger-learning-v0`. No suite is imported until its environment is made.
"""

import re

import gymnasium

from hermes_lab.tasks import list_suites
from hermes_lab.tasks.registry import domains

for _suite in list_suites():
    if re.fullmatch(r"[\w.-]+", _suite):  # skip names that Gymnasium rejects, so that one suite cannot break the others
        gymnasium.register(
            id=f"HermesLab/{_suite}-v0", entry_point="hermes_lab.envs.gym:HermesLabEnv", kwargs={"suite": _suite}
        )

for _domain, _families in domains().items():
    for _suite in (_domain, *_families):
        gymnasium.register(
            id=f"HermesLab/{_suite}-learning-v0",
            entry_point="hermes_lab.envs.learning.gym:LearningEnv",
            kwargs={"suite": _suite},
        )
