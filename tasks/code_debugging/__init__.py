"""Families of the domain code_debugging."""
