"""Defects of a wire, put in by a proxy."""
