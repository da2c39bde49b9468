"""Hermes Lab: run a self-improving tool-using agent, measure whether it got better, and train on what it did."""

__version__ = "0.1.0"
