"""Survival analysis: repeated trials until a task is solved, and censored times.

Array names end in their axes: B bootstrap draws, N observations, P parameters, T trials or times.
"""
