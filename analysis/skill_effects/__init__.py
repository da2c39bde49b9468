"""Effects of skills: usage funnel, rule capture, uplift and leaks."""
