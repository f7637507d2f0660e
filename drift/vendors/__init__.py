"""One reader for each vendor's SDK: which of its types stand where on the wire."""
