"""The code debugging family `repair`: a house's small Python package, whose components follow conventions that nobody
wrote down.
"""
