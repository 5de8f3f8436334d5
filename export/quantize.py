def quantize_graph(model): raise NotImplementedError
