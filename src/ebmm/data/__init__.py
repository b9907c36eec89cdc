"""Patterns to store and the damage to recover them from."""
