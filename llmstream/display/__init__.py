"""Shows streams and runs to people: in notebooks, on terminals, as text. Loaded when something is shown."""
