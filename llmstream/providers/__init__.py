"""Providers: one folder each, found by its name."""
