"""Operations as records, whatever they are read from: a second run, the live graph, a model run again."""
