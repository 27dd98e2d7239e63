"""The engine: tensors, nodes of the graph, calls of operations, backward and forward mode; it knows no operation."""
