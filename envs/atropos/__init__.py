"""Atropos: groups of rollouts for any trainer that reads batches from a trajectory server (`run-api`).

`serve` feeds a server, `process` writes the same groups to a file. Both use the batch runner's rollouts
(`hermes_lab.envs.rollouts`) and the sampler's tokens. `base_env` integrates with atroposlib; the rest only needs
aiohttp."""
