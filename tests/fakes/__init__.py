"""Test doubles of things outside this project."""
