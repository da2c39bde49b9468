"""Environments for reinforcement learning, and scored groups of rollouts.

Importing it makes every suite a Gymnasium id, as is Gymnasium's convention:
`gymnasium.make("envs:HermesLab/ledger-v0")`, or `import envs` and then `gymnasium.make("HermesLab/ledger-v0")`.
"""

import gymnasium

from tasks import list_suites

for _suite in list_suites():
    gymnasium.register(id=f"HermesLab/{_suite}-v0", entry_point="envs.gym:HermesLabEnv", kwargs={"suite": _suite})
