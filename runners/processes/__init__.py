"""Rollouts in several processes on this machine."""
