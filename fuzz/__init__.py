"""Coverage-guided fuzzing of everything that reads bytes from a network; see README.md."""
