"""A browser inside an episode's sandbox: Chromium, driven by Playwright's own driver in Node."""
