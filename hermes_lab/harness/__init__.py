"""Who works on a task: the lab's own agent loop, or a program such as the real hermes-agent, Claude Code or Codex.

Both are a `Worker` in the same `hermes_lab.rollout.run_episode`, so arms, lanes, records and analysis hold for either.
"""
