"""Learning episodes: short lanes in which a review earns what the skills that it writes are worth.

`lanes` draws the tasks, `run` makes the rollouts, `worth` computes rewards, `groups` builds scored groups, and `gym` is
the Gymnasium environment.
"""
