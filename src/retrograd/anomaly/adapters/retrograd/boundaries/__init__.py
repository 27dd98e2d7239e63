"""Where a number may do harm, or is refused, outside of a plain backward."""
