"""Capture of a piece of work in one CUDA graph."""

from collections.abc import Callable

import torch


def captured(body: Callable[[], object], warm_up: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """The graph of `body`, which runs at every replay and not now.

    `warm_up` runs twice before, on a stream of its own, where libraries make what they make at first use: the
    same work, of which no trace matters. Raises what torch raises for work that looks at the host.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            warm_up()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        body()
    return graph
