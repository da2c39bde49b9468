"""Families whose work is one call of a program of the house: little is asked but to know the rule."""
