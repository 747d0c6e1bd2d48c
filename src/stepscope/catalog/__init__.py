"""Machines, models and causes as data: TOML files with a source for every number, and the values they become."""
