"""Families of the domain web_research."""
