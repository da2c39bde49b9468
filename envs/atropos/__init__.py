"""Atropos: groups of rollouts for any trainer that takes its batches from a trajectory server (`run-api`).

`serve` feeds a server, `process` writes the same groups to a file. Both take their rollouts from
`hermes_lab.envs.rollouts`, which is the batch runner's path, and their tokens from the sampler. `base_env` is for those
who start from atroposlib; the rest needs only aiohttp."""
