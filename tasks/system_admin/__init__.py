"""Families of the domain system_admin."""
