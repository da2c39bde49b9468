"""Locked LoRA training and the adapter registry."""
