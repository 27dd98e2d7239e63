"""Records of operations, whatever their source: a second run, the live graph, a rerun of a model."""
