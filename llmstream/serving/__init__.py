"""The server side: what reads clients' requests and writes responses to them."""
