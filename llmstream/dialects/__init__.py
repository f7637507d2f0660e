"""Dialects: the shapes of APIs on the wire, each in both directions and without I/O."""
