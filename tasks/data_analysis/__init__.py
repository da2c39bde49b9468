"""Families of the domain data_analysis."""
