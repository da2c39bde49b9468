"""Analysis of run folders: tables, learning curves, comparisons, plots and the HTML report.

- `data`: run folders as tables; `rows` documents every column.
- `summaries`: counts, cost and warnings of one run.
- `curves`, `fitting`: learning-curve models, maximum-likelihood fits, intervals, model choice and partial pooling.
- `survival`: time to solve, with censoring, and tasks that are never solved.
- `comparison`: paired comparisons of arms, runs and weights, and the verdict.
- `stats`: intervals, tests and power on plain arrays.
- `skill_effects`: what skills did and caused: funnel, capture, uplift, leaks.
- `audit`: published claims checked against their own formula and against measurements.
- `plots`, `report`, `notebooks`: output.

Formulas, sources and limits: `docs/statistics.md`, `docs/comparisons.md`, `docs/skill-effects.md`,
`docs/survival.md`.
"""
