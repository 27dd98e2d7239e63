"""Backward: nodes in descending order of creation, each once all its consumers have run.

One loop serves both cases: it carries raw arrays and runs the rules on them; with ``create_graph``, or if gradients
have tangents, it carries Tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush, heappushpop
from typing import Any

import numpy as np

from retrograd.core import sites, state
from retrograd.core.backward_hooks import as_carried, as_tensor, run_posthooks, run_prehooks, run_tensor_hooks
from retrograd.core.blocks import LARGE, run_blocked
from retrograd.core.finite_checks import checks, show_sum
from retrograd.core.graph_traversal import dependencies, if_all_end_in, leading_to
from retrograd.core.node import FREED, AccumulateGrad, Node, OpNode
from retrograd.core.observer import observed_node
from retrograd.core.tensor import Edge, Tensor, wrap
from retrograd.core.unbroadcast import fit
from retrograd.gpu import DeviceArray


def run(
    roots: Sequence[tuple[Edge, Tensor]],
    *,
    retain_graph: bool,
    create_graph: bool,
    inputs: Sequence[Edge] | None = None,
    accumulate: bool,
    notify: bool = True,
    values_matter: bool = True,
) -> list[Tensor | None]:
    """Send gradients from ``roots`` backwards.

    Parameters
    ----------
    roots
        Pairs of an edge and the gradient that arrives there.
    inputs
        If given, only what leads to these edges is computed.
    accumulate
        Whether leaves among ``inputs`` (all leaves, without ``inputs``) get their ``.grad``. Otherwise the gradients
        that arrive at ``inputs`` are returned.
    notify
        Whether a monitor is notified; not of a backward that only transposes a rule, which the user did not request.
    values_matter
        Whether a monitor checks the gradients. If not, it is notified of births all the same.

    Returns
    -------
    list of Tensor or None
        One entry for each of ``inputs``; None where no gradient arrived. Empty when accumulating.
    """
    captures: dict[Node, list[tuple[int, int]]] = {}
    for position, (node, nr) in enumerate(inputs or ()):
        captures.setdefault(node, []).append((nr, position))
    executed: set[Node] | None = None  # None means all except nodes at which gradients are returned
    counts = dependencies(roots, None) if inputs is None else if_all_end_in(captures, roots)
    if counts is None:
        executed = leading_to(roots, captures)
        if accumulate:
            executed.update(captures)  # they run, because of their hooks
        if len(roots) > 1:  # as in torch, where the hooks of a single root run in any case
            roots = [root for root in roots if root[0][0] in executed or root[0][0] in captures]
        counts = dependencies(roots, executed)
    elif accumulate:
        captures = {}
    monitor = state.monitor if notify else None
    evaluating = state.local.evaluating
    within = state.local.graph_task
    saved_hooks = state.local.saved_hooks
    # gradients that carry tangents are Tensors, recorded or not
    on_tensors = create_graph or state.local.tangents is not None
    task = GraphTask(counts, executed, captures, within, everything=inputs is None)
    is_outermost = monitor is not None and within is None
    reached = monitor.leaves() if is_outermost else state.local.reached  # type: ignore[union-attr]
    recording, mode = state.local.grad_enabled, state.local.mode
    try:
        state.set_grad_enabled(create_graph)
        state.local.graph_task = task
        state.local.reached = reached
        # NumPy's floating-point warnings would point into this package; a monitor reads the flags by itself
        with np.errstate(all="ignore") if monitor is None else monitor.errstate():
            n_inputs = 0 if inputs is None else len(inputs)
            results = _loop(roots, counts, retain_graph, on_tensors, executed, captures, n_inputs)
            for callback in task.callbacks:  # one may queue another
                callback()
    except Exception as error:
        if state.local.anomaly is not None:
            state.local.anomaly.explain(_evaluated(error), error)
        if within is not None and isinstance(error, RecursionError):
            _mention_depth(error, task.depth)
        raise
    finally:
        # stores first: an interrupt can only arrive where something is called
        state.local.grad_enabled, state.local.mode = recording, mode
        state.local.evaluating = evaluating
        state.local.graph_task = within
        state.local.saved_hooks = saved_hooks  # a hook that enters or leaves a block does so for this backward only
        if is_outermost:
            state.local.reached = None
        state.refresh()  # a hook may have ended what caused the mode
        if monitor is not None or state.local.anomaly is not None:
            sites.forget()
    if monitor is not None and values_matter:
        monitor.after_backward(
            roots, None if accumulate else results, reached or (), () if accumulate else inputs or ()
        )
    return results


def _mention_depth(error: RecursionError, depth: int) -> None:
    """Add, once, how many backward passes were nested."""
    if not hasattr(error, "__notes__"):
        error.add_note(
            f"backward() was called inside of backward, {depth} levels deep. Each level takes about ten Python frames: "
            "raise the limit with sys.setrecursionlimit()."
        )


def _evaluated(error: Exception) -> Node | None:
    """The node during whose evaluation an error was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code is not _loop.__code__:
        trace = trace.tb_next
    return None if trace is None else trace.tb_frame.f_locals["node"]


class GraphTask:
    """One backward under way, for the hooks that run in it.

    Parameters
    ----------
    counts
        For each node that the roots reach, how many gradients it waits for.
    executed
        Those of them that run, or None for all but ``captures``.
    captures
        The nodes at which gradients are returned.
    within
        The backward that this one was called in, by a hook or a user-written Function, or None.
    everything
        Whether the backward is not restricted to some inputs.

    Attributes
    ----------
    callbacks
        What is called once all nodes have run; see :meth:`retrograd.autograd.variable.ImperativeEngine.queue_callback`.
    """

    __slots__ = ("__weakref__", "_captures", "_counts", "_executed", "callbacks", "depth", "everything")

    everything: bool
    depth: int

    def __init__(
        self,
        counts: dict[Node, int],
        executed: set[Node] | None,
        captures: dict[Node, list[tuple[int, int]]],
        within: GraphTask | None,
        *,
        everything: bool,
    ) -> None:
        self._counts = counts
        self._executed = executed
        self._captures = captures
        self.callbacks: list[Callable[[], Any]] = []
        self.depth = 1 if within is None else within.depth + 1  # of nested backward passes, including this one
        # whether no backward under way is restricted to some inputs
        self.everything = everything and (within is None or within.everything)

    def reaches(self, node: Node) -> bool:
        """Whether the gradient that arrives at ``node`` is computed."""
        if node not in self._counts:
            return False
        return self._executed is None or node in self._executed or node in self._captures


# When the processor raises a flag, a watch reads some variables of the functions below from their frames, by the names
# that they have here; tests/anomaly/test_frames.py lists them.
def _loop(
    roots: Sequence[tuple[Edge, Tensor]],
    counts: dict[Node, int],
    retain_graph: bool,
    on_tensors: bool,
    executed: set[Node] | None,
    captures: dict[Node, list[tuple[int, int]]],
    n_inputs: int,
) -> list[Tensor | None]:
    results: list[Tensor | None] = [None] * n_inputs
    # what has arrived at each node: a gradient, or a list of one per output
    arrived: dict[Node, Any] = {}
    # the nodes whose entry in ``arrived`` was made here and belongs to nobody else: it may be added to in place
    owned: set[Node] = set()
    ready: list[tuple[int, Node]] = []
    for edge, grad in roots:
        node, carried = edge[0], grad if on_tensors else grad._data
        if node.outputs != 1:
            _add_to_output(arrived, node, edge[1], carried)
        elif node in arrived:
            _add(arrived, owned, node, carried, on_tensors)
        else:
            arrived[node] = carried
    for node in {edge[0]: None for edge, _ in roots}:
        if counts[node] == 0:
            heappush(ready, (-node.seq, node))

    observer = state.local.observer
    anomaly = checks()
    plain = not on_tensors and observer is None
    recording = state.local.grad_enabled
    # where gradients go, if not everywhere
    wanted = None if executed is None else executed | captures.keys()
    while ready:
        node = heappop(ready)[1]
        g = arrived.pop(node, None)
        while True:
            following: Node | None = None
            if (
                plain
                and node.plain
                and node.extras is None
                and g is not None
                and not (node.aside and g.size >= node.large)
                and (executed is None or (node in executed and node not in captures))
            ):
                # The usual step, written out because most of the time is spent here: an operation with one output and
                # no hooks or observers. It does what _step() and _deliver() below do.
                saved = node.saved  # type: ignore[attr-defined]
                if saved is None:
                    raise RuntimeError(FREED)
                for (rule, slots), edge in zip(node.rules, node.next):  # type: ignore[attr-defined,assignment]  # noqa: B905
                    if edge is None or (wanted is not None and edge[0] not in wanted):
                        continue
                    if not slots:
                        gi = rule(g)
                    elif len(slots) == 1:
                        entry = saved[slots[0]]
                        if type(entry) is Tensor and entry._cell is None:
                            gi = rule(g, entry._data)
                        else:
                            gi = rule(g, node.value(slots[0]))  # type: ignore[attr-defined]
                    else:
                        gi = rule(g, *node.values(slots))  # type: ignore[attr-defined]
                    target = edge[0]
                    left = counts[target] = counts[target] - 1
                    if gi is None or target.outputs != 1:
                        if gi is not None:
                            if anomaly is not None:
                                gi = fit(gi, *target.shape_and_dtype(edge[1]), node, 0)
                                if gi is not g:
                                    anomaly.check(node, g, gi, rule)
                            _deliver(arrived, owned, node, g, edge, gi, on_tensors)
                    else:
                        if gi.shape != target.shape or gi.dtype is not target.dtype:
                            gi = fit(gi, target.shape, target.dtype, node, 0)
                        if anomaly is not None and gi is not g:
                            anomaly.check(node, g, gi, rule)
                        if target in arrived:
                            _add(arrived, owned, target, gi, on_tensors)
                        else:
                            arrived[target] = gi
                            if target.is_leaf and _is_fresh(gi, g, node):
                                owned.add(target)
                    if left == 0:
                        if following is None:
                            following = target
                        else:
                            heappush(ready, (-target.seq, target))
                if node.releases and not retain_graph:
                    node.saved = None  # type: ignore[attr-defined]
            elif (
                plain
                and executed is None
                and node.is_leaf
                and g is not None
                and node not in captures
                and _unobserved(node)
            ):
                node.accumulate(g, node in owned)  # type: ignore[attr-defined]
                owned.discard(node)
                if anomaly is not None:
                    anomaly.check_leaf(node)
            else:
                token = None if observer is None else observer.evaluate_begin(node)
                if on_tensors or anomaly is not None:
                    state.local.evaluating = node
                edges, grads, passed = _step(node, g, owned, on_tensors, executed, captures, results)
                if on_tensors and state.local.grad_enabled is not recording:
                    state.set_grad_enabled(recording)  # modes set by a hook or a custom function do not leak to others
                if anomaly is not None:  # it checks what arrives: a sum over broadcast dimensions may make a NaN
                    grads = _fitted(node, edges, grads)
                for index, edge in enumerate(edges):  # type: ignore[assignment]
                    if edge is None:
                        continue
                    if grads is not None and grads[index] is not None:
                        _deliver(arrived, owned, node, passed, edge, grads[index], on_tensors, index)
                    target = edge[0]
                    left = counts[target] = counts[target] - 1
                    if left == 0:
                        if following is None:
                            following = target
                        else:
                            heappush(ready, (-target.seq, target))
                if edges and not retain_graph:  # it has run, and nothing is wrong with the shapes it returned
                    node.release()
                if anomaly is not None:
                    anomaly.check_step(node, g, grads)
                if observer is not None:
                    observer.evaluate_end(token, node)
            if following is None:
                break
            node = heappushpop(ready, (-following.seq, following))[1] if ready else following
            g = arrived.pop(node, None)
    return results


def _unobserved(leaf: Node) -> bool:
    """Whether no hook is registered for the gradient of a leaf."""
    meta = leaf.variable._meta  # type: ignore[attr-defined]
    return leaf.extras is None and (meta is None or not (meta.hooks or meta.post_accumulate_hooks))


def _deliver(
    arrived: dict[Node, Any],
    owned: set[Node],
    node: Node,
    g: Any,
    edge: Edge,
    gi: Any,
    on_tensors: bool,
    index: int = 0,
) -> None:
    """Bring a gradient that ``node`` made from ``g`` to where ``edge`` leads."""
    target, nr = edge
    if target.outputs != 1:
        gi = fit(gi, target.shape[nr], target.dtype[nr], node, index)
        _add_to_output(arrived, target, nr, gi)
        return
    array = gi._data if type(gi) is Tensor else gi
    if array.shape != target.shape or array.dtype is not target.dtype:
        gi = fit(gi, target.shape, target.dtype, node, index)
    if target in arrived:
        _add(arrived, owned, target, gi, on_tensors)
    else:
        arrived[target] = gi
        if target.is_leaf and _is_fresh(gi, g, node):
            owned.add(target)


def _fitted(node: Node, edges: tuple[Edge | None, ...], grads: Any) -> Any:
    """The gradients that ``node`` made, as :func:`_deliver` would bring them to where ``edges`` lead."""
    if grads is None:
        return None
    fitted = list(grads)
    for index, (edge, gi) in enumerate(zip(edges, grads, strict=False)):
        if edge is not None and gi is not None:
            target, nr = edge
            fitted[index] = fit(gi, *target.shape_and_dtype(nr), node, index)
    return fitted


def _step(
    node: Node,
    g: Any,
    owned: set[Node],
    on_tensors: bool,
    executed: set[Node] | None,
    captures: dict[Node, list[tuple[int, int]]],
    results: list[Tensor | None],
) -> tuple[tuple[Edge | None, ...], Any, Any]:
    """Run one node with everything that may be attached: hooks, captured gradients, leaves, several outputs.

    Returns the edges to follow (none if the node itself did not run), the gradients for them, and the gradient that
    these were made from, which may be a hook's replacement for the one that arrived.
    """
    extras = node.extras
    ends_here = node in captures if executed is None else node not in executed
    arrived = g
    if extras is not None or node.is_leaf:
        g = run_tensor_hooks(node, extras, g, owned, on_tensors)
    if node in captures and g is not None:
        # as in torch, hooks change the returned gradient only if no other one is requested behind it
        captured = g if ends_here else arrived
        for nr, position in captures[node]:
            results[position] = as_tensor(captured if node.outputs == 1 else captured[nr], on_tensors)
    if ends_here:
        return (), None, g
    if extras is not None and (extras.prehooks or extras.posthooks):
        owned.discard(node)
    if extras is not None and extras.prehooks:
        g = run_prehooks(node, extras, g, on_tensors)
    observer = state.local.observer
    if isinstance(node, AccumulateGrad):
        if observer is None:
            _accumulate(node, g, node in owned, on_tensors)
        else:
            observed_node(observer, node, g, _accumulate, node, g, node in owned, on_tensors)
        owned.discard(node)
        if extras is not None and extras.posthooks:
            run_posthooks(node, extras, g, (), on_tensors)
        return (), None, g
    edges = node.next
    if executed is not None:
        edges = tuple(
            edge if edge is not None and (edge[0] in executed or edge[0] in captures) else None for edge in edges
        )
    if observer is None:
        grads = _gradients(node, g, edges, on_tensors)
    else:
        grads = observed_node(observer, node, g, _gradients, node, g, edges, on_tensors)
    if state.monitor is not None:
        state.monitor.look_backward(node, g, grads)
    if extras is not None and extras.posthooks:
        grads = run_posthooks(node, extras, g, _fitted(node, edges, grads), on_tensors)
    owned.discard(node)
    return edges, grads, g


def evaluate(node: Node, grads: tuple[Tensor | None, ...]) -> Any:
    """Run one node by itself; see :meth:`retrograd.core.node.Node.__call__`.

    Raises
    ------
    TypeError
        If there are more gradients than outputs, or none; if one is no tensor.
    """
    if not 0 < len(grads) <= node.outputs:
        raise TypeError(f"{node.name()}: expected {node.outputs} arguments, got {len(grads)} instead")
    for position, grad in enumerate(grads):
        if grad is not None and not isinstance(grad, Tensor):
            raise TypeError(f"{node.name()}: argument {position} is not a Tensor or None but {type(grad).__name__}")
    on_tensors = state.local.grad_enabled
    carried = [as_carried(grad, on_tensors) for grad in grads] + [None] * (node.outputs - len(grads))
    g = carried[0] if node.outputs == 1 else None if all(grad is None for grad in carried) else carried
    if isinstance(node, AccumulateGrad):
        _accumulate(node, g, False, on_tensors)
        return ()
    results = _gradients(node, g, node.next, on_tensors) or [None] * len(node.next)
    tensors = tuple([as_tensor(result, on_tensors) for result in results])
    return tensors[0] if len(tensors) == 1 else tensors


def _gradients(node: Node, g: Any, edges: tuple[Edge | None, ...], on_tensors: bool) -> Any:
    """Run a node's rules, filling gaps in the gradients of several outputs."""
    if g is None and not node.takes_undefined:
        return None
    if node.outputs != 1 and isinstance(node, OpNode):
        like = next(grad for grad in g if grad is not None)
        g = [
            (_zeros(shape, dtype, like) if dtype.kind in "fc" else None) if grad is None else grad
            for grad, shape, dtype in zip(g, node.shape, node.dtype, strict=True)
        ]
    return node.backward_recorded(g, edges) if on_tensors else node.backward(g, edges)


def _zeros(shape: tuple[int, ...], dtype: np.dtype, like: Any) -> Any:
    """Zeros of the same kind (Tensor or array, on the CPU or a GPU) as ``like``."""
    if isinstance(like, Tensor):
        return wrap(np.zeros(shape, dtype, like=like._data))
    return np.zeros(shape, dtype, like=np.asanyarray(like) if isinstance(like, np.generic) else like)


def _is_fresh(gi: Any, g: Any, node: Node) -> bool:
    """Whether a gradient was newly made by the rule, so that a leaf may keep it without a copy."""
    if _is_same(gi, g) or not _owns_memory(gi) or not isinstance(node, OpNode):
        return False
    if not node.op.fresh or (node.extras is not None and node.extras.posthooks):
        return False  # the hooks have seen it, and may keep it
    if type(g) is list and any(_is_same(gi, item) for item in g):
        return False
    for entry in node.saved or ():
        if entry is not None and (_is_same(entry._data, gi) if type(entry) is Tensor else _is_array_of(entry, gi)):
            return False
    return True


def _is_array_of(entry: Any, array: Any) -> bool:
    """Whether ``array`` is what a saved entry keeps."""
    if isinstance(entry, list):
        return any(_is_array_of(item, array) for item in entry)
    if isinstance(entry, tuple) and entry:  # a Versioned tensor, or a result with its cell and version
        entry = entry[0]
    return _is_same(entry._data if isinstance(entry, Tensor) else entry, array)


def _owns_memory(array: Any) -> bool:
    if type(array) is DeviceArray:
        array = array.array
    elif type(array) is not np.ndarray:
        return False
    return array.base is None


def _is_same(a: Any, b: Any) -> bool:
    """Whether both are the same array, also if they are two wrappers of one array on a GPU."""
    return a is b or (type(a) is type(b) is DeviceArray and a.array is b.array)


def _add(arrived: dict[Node, Any], owned: set[Node], node: Node, gi: Any, on_tensors: bool) -> None:
    """Add a second gradient, or a later one, to what has arrived at ``node``."""
    old = arrived[node]
    looks = state.monitor is not None and state.monitor.looks
    if on_tensors:
        arrived[node] = old + gi
    elif node in owned and type(old) is type(gi) is np.ndarray:
        before = old.copy() if looks else None
        if old.size < LARGE:
            np.add(old, gi, out=old)
        else:
            run_blocked(np.add, old, gi, out=old)
        if looks:
            show_sum(node, before, gi, old)
    else:
        total = old + gi if type(old) is not np.ndarray or old.size < LARGE else run_blocked(np.add, old, gi)
        arrived[node] = total
        owned.add(node)
        if looks:
            show_sum(node, old, gi, total)


def _add_to_output(arrived: dict[Node, Any], node: Node, nr: int, gi: Any) -> None:
    """The same for a node with several outputs."""
    grads = arrived.get(node)
    if grads is None:
        grads = arrived[node] = [None] * node.outputs
    old = grads[nr]
    grads[nr] = gi if old is None else old + gi
    if old is not None and state.monitor is not None and state.monitor.looks:
        show_sum(node, old, gi, grads[nr])


def _accumulate(node: AccumulateGrad, g: Any, owned: bool, on_tensors: bool) -> None:
    if g is not None and on_tensors:
        node.accumulate_recorded(g)
    elif g is not None:
        node.accumulate(g, owned)
    meta = node.variable._meta
    if meta is not None and meta.post_accumulate_hooks:
        for hook in list(meta.post_accumulate_hooks.values()):
            result = hook(node.variable)
            if result is not None and result is not node.variable:  # p.add_(p.grad, alpha=-lr) returns p itself
                kind = RuntimeError if isinstance(result, Tensor) else TypeError  # as in torch
                raise kind("Tensor post accumulate grad hooks should return None.")
