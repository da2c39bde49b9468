"""The gateway: the agent on chat platforms."""
