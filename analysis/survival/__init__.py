"""Outcomes that end: tasks that stay solved once they are, and times that a budget cuts off.

Arrays end in their axes: B bootstrap draws, N observations, P parameters, T trials or times.
"""
