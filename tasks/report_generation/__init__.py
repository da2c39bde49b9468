"""Families of the domain report_generation."""
