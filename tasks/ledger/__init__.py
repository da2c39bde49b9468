"""The data analysis family `ledger`: a house whose desks export tables, and count them by rules that nobody
wrote down.
"""
