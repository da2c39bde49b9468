"""From run folders to tables, fitted learning curves, comparisons and pictures.

`rows` flattens episodes (its columns are documented there), `load` makes them a table, `summary` adds them
up, `fit` fits a learning curve and says whether the data identify it, `compare` pairs two runs or two arms,
`plots` draws. What is estimated, and what is not claimed, stands in `docs/statistics.md`.
"""
