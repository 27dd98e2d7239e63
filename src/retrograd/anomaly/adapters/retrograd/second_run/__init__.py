"""A step run again, with every operation recorded."""
