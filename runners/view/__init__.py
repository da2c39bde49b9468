"""The local page of `hermes-lab view`: `run_reader` and `runs` read run folders, `server` answers the page's requests,
`page` puts the page together from its own assets and those of the report.
"""
