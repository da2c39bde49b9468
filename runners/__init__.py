"""Runs experiments: the command line, the Python API and the engine behind them."""
