"""Where elements lie, as far as shapes tell."""
