"""Sockets, deadlines and retries: the way to a vendor and back."""
