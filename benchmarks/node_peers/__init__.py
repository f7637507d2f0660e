"""JavaScript clients on the same bytes, in a process of Node's."""
