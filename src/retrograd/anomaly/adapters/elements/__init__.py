"""The positions of elements, as far as shapes tell."""
