"""The picture of a graph: its contents, how large graphs are condensed, its layout, and its output formats."""
