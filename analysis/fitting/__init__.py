"""Fits learning curves and says whether the data identify them."""
