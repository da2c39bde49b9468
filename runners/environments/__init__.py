"""Model servers and rollouts for environments and GRPO."""
