"""Fits learning curves and checks whether the data identify them."""
