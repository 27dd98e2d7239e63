"""The user's program: its lines, their syntax, the variables in its frames."""
