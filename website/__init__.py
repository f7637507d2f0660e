"""The documentation site: reference pages from docstrings, and checks of the built site. See scripts/docs."""
