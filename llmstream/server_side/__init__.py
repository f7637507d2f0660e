"""The server side: reads clients' requests and writes responses."""
