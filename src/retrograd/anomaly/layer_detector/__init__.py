"""Which layer of a model made a NaN or an infinity."""
