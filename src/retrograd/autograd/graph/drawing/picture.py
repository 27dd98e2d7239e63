"""``draw`` and what it returns."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from retrograd.autograd.graph.edges import GradientEdge
from retrograd.core.tensor import Edge, Tensor

if TYPE_CHECKING:
    from retrograd.autograd.graph.drawing.diagram import Diagram

_MAX_NODES = 300


class Picture:
    """What :func:`draw` returns: a picture of a graph. Notebooks show it; ``print`` lists it.

    Attributes
    ----------
    svg, dot, mermaid : str
        The picture as SVG, in the language of Graphviz, and in that of Mermaid.
    """

    def __init__(self, diagram: Diagram) -> None:
        self._diagram = diagram

    @functools.cached_property
    def svg(self) -> str:
        """The picture as a complete SVG document, which may also stand inside an HTML page."""
        from retrograd.autograd.graph.drawing.svg import to_svg

        return to_svg(self._diagram)

    @property
    def dot(self) -> str:
        """The picture in the language of Graphviz."""
        from retrograd.autograd.graph.drawing.text import to_dot

        return to_dot(self._diagram)

    @property
    def mermaid(self) -> str:
        """The picture in the language of Mermaid, which Markdown pages show between lines of three backquotes."""
        from retrograd.autograd.graph.drawing.text import to_mermaid

        return to_mermaid(self._diagram)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file, in the form that its suffix names.

        Parameters
        ----------
        path
            Ends in ``.svg``, ``.dot`` (or ``.gv``), or ``.mmd`` (or ``.mermaid``).

        Raises
        ------
        ValueError
            If it ends otherwise.
        """
        name = os.fspath(path)
        forms = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid"}
        form = forms.get(os.path.splitext(name)[1].lower())
        if form is None:
            raise ValueError(
                f"save(): the file name must end in one of {', '.join(forms)}, but is {os.path.basename(name)!r}"
            )
        with open(name, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(getattr(self, form))

    def _repr_svg_(self) -> str:
        return self.svg

    def __str__(self) -> str:
        from retrograd.autograd.graph.drawing.text import to_list

        return to_list(self._diagram)

    def __repr__(self) -> str:
        return f"<Picture: {self._diagram.caption()}>"


def draw(tensors: Any, *, names: Any = None, show_saved: bool = True, max_nodes: int = _MAX_NODES) -> Picture:
    """Draw the graph that computed one tensor or several.

    Leaves are green, what was asked for is blue; every operation shows the dtypes and shapes of its outputs, and what
    it saved for backward. Where a watch or anomaly mode was on, pointing at an operation tells the line of the program
    that called it.

    Parameters
    ----------
    tensors
        A tensor that requires grad, a :class:`GradientEdge`, or a list, tuple or mapping (from names) of some.
    names
        Names of tensors: a mapping from names, or an object with ``named_parameters()``, such as a module. Leaves are
        called by them, and other tensors labelled. Without it, ``tensor.name`` counts.
    show_saved
        Whether to tell what is saved for backward.
    max_nodes
        Above this number of operations and leaves, repetitions and then long runs of operations become one box each.

    Returns
    -------
    Picture
        With ``svg``, ``dot``, ``mermaid`` and ``save(path)``; ``print`` gives a list.

    Raises
    ------
    RuntimeError
        If a tensor does not require grad: nothing was recorded about it.
    TypeError
        If something is not a tensor.

    Examples
    --------
    >>> w = rg.ones(3, 2, requires_grad=True)
    >>> x = rg.ones(4, 3)
    >>> loss = (x @ w).tanh().sum()
    >>> picture = rg.autograd.graph.draw(loss, names={"w": w, "loss": loss})
    >>> print(picture)
    n0 = w           float32 [3, 2]
    n1 = matmul(n0)  float32 [4, 2]    saves input [4, 3]
    n2 = tanh(n1)    float32 [4, 2]    saves result
    n3 = sum(n2)     loss: float32 []
    3 operations · 1 leaf · 80 bytes saved for backward
    >>> picture.svg[:4], picture.dot[:7], picture.mermaid[:12]
    ('<svg', 'digraph', 'flowchart TD')
    """
    from retrograd.autograd.graph.drawing.diagram import read
    from retrograd.autograd.graph.drawing.grouping import group

    given = dict(_named(names))
    roots = []
    for name, tensor in _flat(tensors):
        edge = _edge_of(tensor)
        if edge is None:
            raise RuntimeError(
                f"draw(): a tensor of shape {list(tensor.shape)} does not require grad: it was computed from nothing "
                "that requires grad, under no_grad, or detached, so there is no graph to draw"
            )
        roots.append(edge)
        if name is not None:
            given.setdefault(edge, name)
    if not roots:
        raise TypeError("draw(): expected at least one tensor, but got none")
    diagram = read(roots, given, show_saved)
    return Picture(diagram if len(diagram.boxes) <= max_nodes else group(diagram, max(max_nodes // 3, 4)))


def _named(names: Any) -> Iterator[tuple[Edge, str]]:
    if names is None:
        return
    if hasattr(names, "named_parameters"):
        names = dict(names.named_parameters())
    if not isinstance(names, Mapping):
        raise TypeError(
            f"draw(): names must map names to tensors, or have named_parameters(), but is {type(names).__name__}"
        )
    for name, tensor in names.items():
        edge = _edge_of(tensor)
        if edge is not None:
            yield edge, str(name)


def _flat(tensors: Any) -> Iterator[tuple[str | None, Any]]:
    if isinstance(tensors, Mapping):
        yield from ((str(name), tensor) for name, tensor in tensors.items())
    elif isinstance(tensors, (list, tuple)) and not isinstance(tensors, GradientEdge):
        yield from ((None, tensor) for tensor in tensors)
    else:
        yield None, tensors


def _edge_of(tensor: Any) -> Edge | None:
    if isinstance(tensor, GradientEdge):
        return tensor.node, tensor.output_nr
    if not isinstance(tensor, Tensor):
        raise TypeError(f"draw(): expected tensors or gradient edges, but got {type(tensor).__name__}")
    return tensor._resolve_edge()
