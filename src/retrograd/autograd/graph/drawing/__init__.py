"""The picture of a graph: what is in it, what is left out of it, where it goes, and how it is written down."""
