"""Other people's clients on the same bytes: one small file each, with FAMILY, PACKAGES and `reader`."""
