"""One self-contained HTML file of one or more runs: what came of them first, every trajectory last.

`data` reads and pairs episodes, `findings` asks the rest of `analysis`, `sections` and `charts` say it in HTML and SVG,
`transcript` and `chunks` pack trajectories for the viewer, `page` puts the file together. What the page may do, and why
nothing in a trajectory can do anything, stands in `docs/report.md`.
"""
