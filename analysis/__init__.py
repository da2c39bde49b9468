"""From run folders to tables, learning curves, comparisons, pictures and the report.

What is read: `rows` documents every column, `load` makes tables of them, `columns` and `line` read no more of the log
than is asked for; `runs` tells how far runs are, `series` what belongs to one curve, `timeline` what became of skills;
`summary` adds a run up, `warnings` and `unread` tell what makes its score meaningless.

How success grows: `curves` holds the models, a file each; `likelihood` finds the maximum, `fit` says what the data
tell, `identification` when they tell nothing; `bootstrap`, `profile` and `wald` make intervals, `forms` chooses among
models, `pooling` joins domains. `survival` is for what is solved once, and for times that were cut off.

What made a difference: `verdict` answers in a sentence, by `compare` (`pairs`, `paired`, `comparison`),
`decomposition` (weights x skills), `gap` (to the oracle), `slope` (`logistic`), `aggregate` and `multiple`; `power`
says what can be detected.

What skills cause: `funnel`, `capture`, `uplift`, `leaks`; what learning keeps and costs: `continual`, `drift`,
`course`, `cost`, `spread`.

What is shown: `plots`, `report`, `notebooks`; `claims` holds published curves against all this (`published`,
`measurements`). Formulas, sources and what is not claimed: `docs/statistics.md`, `docs/comparisons.md`,
`docs/skill-effects.md`, `docs/survival.md`.
"""
