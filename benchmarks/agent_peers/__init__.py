"""Other people's agents at the same work: one small file each, with PACKAGES and `runner`."""
