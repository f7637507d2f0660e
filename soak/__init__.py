"""Many streams through one process, most of them in trouble; see docs/how-it-is-tested.md."""
