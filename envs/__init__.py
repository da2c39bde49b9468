"""Environments for reinforcement learning, and scored groups of rollouts."""
