"""Sockets, deadlines and rate limits: the connection to a vendor."""
