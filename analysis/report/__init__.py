"""A self-contained HTML report of one or more runs, from the verdict down to every trajectory.

`data` reads and pairs episodes, `findings` gathers results from the rest of `analysis`, `sections` and `charts` render
HTML and SVG, `transcript` and `chunks` pack trajectories for the viewer, `page` assembles the file. See
`docs/report.md` for the page's permissions and how trajectories are kept inert.
"""
