"""Rollouts in several processes of this machine."""
