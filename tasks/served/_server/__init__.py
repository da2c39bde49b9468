"""The servers of these suites, and nothing else: sandboxes mount this folder, so the agent can read it."""
