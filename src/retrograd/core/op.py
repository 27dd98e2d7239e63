"""The rule language: an operation, its derivative, and everything that follows from them.

::

    @elementwise(np.exp, input=lambda g, result: g * conj(result))
    def exp(input):
        '''Return e raised to each element of ``input``.'''

A rule is one keyword per differentiable argument: a function of the incoming gradient ``g`` and of whatever it names:

* an argument (a tensor is saved for backward and its version checked),
* ``result`` (saved without a reference cycle; a list if there are several), or one of several by its own name,
* ``input_shape`` of an argument ``input`` (nothing of it is kept alive),
* ``needs``, a tuple that says which edges need a gradient, or one of the ``byproducts`` of the function.

Names are read once, at import; one that the operation does not have is an error there and then.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from retrograd.core import calls, registry
from retrograd.core.blocks import HEAVY, LARGE, in_blocks
from retrograd.core.errors import mention_numpy, no_keepdim
from retrograd.core.half import in_single
from retrograd.core.kinds import PLAIN, kind_of
from retrograd.core.monitor import looked_at, silenced
from retrograd.core.named_results import NamedResults
from retrograd.core.node import (
    MultiOpNode,
    MultiSequenceOpNode,
    OpNode,
    SequenceOpNode,
    raw_saved_property,
    saved_property,
)
from retrograd.core.numbers_first import numbers_last
from retrograd.core.parameter_aliases import synonyms
from retrograd.core.slots import Saver, compile_saver, meaning

Rule = Callable[..., Any]


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's parameters, in order (``inspect.signature`` takes fifty times as long)."""
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


# Parameters that can be read off a result's shape and dtype, and those that do not influence it.
_NOT_NEEDED_AGAIN = frozenset(("shape", "size", "kernel", "dtype", "memory_format", "non_blocking", "generator"))


def _counted_on(name: str, skipped: int) -> str:
    """The name of the node of a form that torch counts so many forms later: ``FillBackward3`` for ``FillBackward1``."""
    stem = name.rstrip("0123456789")
    return f"{stem}{int(name[len(stem) :]) + skipped}" if skipped else name


class Op:
    """An operation: its function on arrays, its rules, and the save plan compiled from them.

    Attributes
    ----------
    name : str
        The public name.
    label : str
        What observers call it: the name with its namespace, as ``linalg_inv``.
    forward : callable
        The function on arrays, with the public parameters.
    params : tuple of str
        The names of the parameters, in order.
    call : callable
        The public function.
    rules : tuple of (callable, tuple of int)
        For each differentiable parameter, its rule and the slots of what the rule names.
    slots : tuple of str
        Everything that some rule names, and the plain arguments.
    factors : tuple of str
        The parameters in each of which it is linear; it is jointly linear in the other differentiable ones.
    node_class : type
        The class of the nodes it records, named as torch names it.
    """

    def __init__(
        self,
        forward: Callable[..., Any],
        rules: dict[str, Rule],
        *,
        kind: str,
        name: str | None = None,
        node_name: str | Callable[..., str] | None = None,
        ufunc: np.ufunc | None = None,
        int_to_float: bool = False,
        outputs: tuple[str, ...] | None = None,
        sequence: str | None = None,
        variadic: str | None = None,
        view: bool = False,
        multi_view: bool = False,
        arrays_too: bool = False,
        fresh: bool = True,
        factors: tuple[str, ...] = (),
        differentiable_outputs: tuple[int, ...] | None = None,
        write: Callable[..., None] | None = None,
        byproducts: tuple[str, ...] = (),
        flagless: bool = False,
        quiet: bool = False,
        opmath: bool = True,
        fitting: Callable[[str, str, Any, np.dtype], None] | None = None,
        heavy: bool = False,
        forms: int = 0,
        numbers_first: bool = False,
    ) -> None:
        self.name = self.label = name or forward.__name__.rstrip("_")
        self.__doc__ = forward.__doc__
        self.module = forward.__module__
        self.call: Callable[..., Any]
        self.kind = kind
        self.ufunc = ufunc
        self.function = forward  # as written, with its signature
        self.forward = forward if ufunc is None else ufunc
        if flagless:
            self.forward = looked_at(forward)
        elif quiet:
            self.forward = silenced(forward)
        # from how many elements on it runs in blocks and threads, and the function that does so
        self.large = HEAVY if heavy else LARGE
        self.in_blocks = in_blocks(self.forward, self.large) if heavy else self.forward
        self.int_to_float = int_to_float
        # the check for numbers before they are converted to the result's dtype, in which they wrap around
        self.fitting = fitting
        # how many forms torch counts before those that write in place, if the latter have node names of their own
        self.forms = forms
        # whether its numbers may also come before the tensors that they multiply, as in older programs
        self.numbers_first = numbers_first
        # whether float16 is computed in float32; comparisons see the numbers as float16 has them, as in torch
        self.opmath = opmath and kind == "elementwise" and bool(rules) and outputs is None
        self.sequence = sequence
        self.variadic = variadic
        self.view = view
        self.multi_view = multi_view
        self.arrays_too = arrays_too
        self.fresh = fresh
        self.factors = factors
        self.flagless = flagless
        self.write = write
        self.differentiable_outputs = differentiable_outputs
        # what the function returns after its result, only for rules
        self.byproducts = byproducts

        self.outputs = outputs
        self.output_type: Callable[[Any], Any] = tuple
        # what a rule may name of the results: all of them, or one of several by its own name
        self.results = ("result", *(outputs or ()))

        self._read_signature(inspect.unwrap(forward))
        self._compile(rules)

        self._name_nodes(node_name)
        self.edge_positions = tuple([self.positions[name] for name in self.differentiable])
        # the operands that are promoted, if it is elementwise
        self.operand_positions = self.edge_positions or tuple(range(len(self.params)))
        self.sequence_position = -1 if sequence is None else self.positions[sequence]

    def _read_signature(self, plain: Callable[..., Any]) -> None:
        """Find out which parameters there are, and the defaults of those that may be omitted."""
        self.params = parameter_names(plain)
        positional = plain.__code__.co_argcount
        given, by_keyword = plain.__defaults__ or (), plain.__kwdefaults__ or {}
        self.defaults = (
            *[inspect.Parameter.empty] * (positional - len(given)),
            *given,
            *[by_keyword.get(name, inspect.Parameter.empty) for name in self.params[positional:]],
        )
        self.required = sum([default is inspect.Parameter.empty for default in self.defaults])
        self.positions = {name: position for position, name in enumerate(self.params)}
        self.keepdim_position = self.positions.get("keepdim", len(self.params))
        self.plain_params = tuple([name for name in self.params if name in plain.__annotations__])
        kinds = [kind_of(plain.__annotations__.get(name, "")) for name in self.params]
        # what the parameters for plain values take, and the classes of values that need no check, by position
        self.kinds = {position: kind for position, kind in enumerate(kinds) if kind is not None}
        self.fitting_types = [PLAIN if kind is None else kind.types for kind in kinds]
        # parameters for a number, which may be given as a tensor without dimensions
        self.number_positions = frozenset(position for position, kind in self.kinds.items() if kind.is_number)

    def _compile(self, rules: dict[str, Rule]) -> None:
        """Assign a slot to every name that a rule uses, and to every rule the numbers of its slots."""
        unknown = (set(rules) - set(self.params)) | (set(self.factors) - set(rules))
        if unknown:
            raise TypeError(f"{self.name}: a rule is given for {sorted(unknown)}, but the parameters are {self.params}")
        # a sequence's rule comes first, because its edges do
        self.differentiable = tuple(sorted(rules, key=[self.sequence, *self.params].index))
        # the short call paths keep their operands and result at fixed places
        short = self.kind == "elementwise" and rules and self.params in (("input",), ("input", "other"))
        slots: list[str] = [*self.params, "result"] if short else []
        used: set[str] = set()
        compiled = []
        for argument in self.differentiable:
            named = parameter_names(rules[argument])[1:]
            for wanted in named:
                self._check_name(argument, wanted)
                used.add(wanted)
                if wanted not in slots:
                    slots.append(wanted)
            compiled.append((rules[argument], tuple([slots.index(wanted) for wanted in named])))
        # plain arguments are kept even if no rule needs them: explaining a result requires computing it again
        self.kept = tuple([name for name in self.plain_params if name not in rules and name not in _NOT_NEEDED_AGAIN])
        self.slots = tuple(dict.fromkeys((*slots, *self.kept))) if rules else tuple(slots)
        self.rules = tuple(compiled)
        self.releases = any(name in self.results or name in self.params for name in used.difference(self.plain_params))
        self._plans: dict[int, tuple[bool, ...]] = {}
        self._savers: dict[int, list[Saver | None]] = {}

    def _name_nodes(self, node_name: str | Callable[..., str] | None) -> None:
        """Find out what its nodes are called."""
        # if names vary: the function that chooses one by the classes of some arguments, and their positions
        self.naming = node_name if callable(node_name) else None
        named_by = parameter_names(self.naming) if self.naming is not None else ()
        if not self.positions.keys() >= set(named_by):
            raise TypeError(f"{self.name}: nodes are named by {named_by}, but the parameters are {self.params}")
        self.naming_positions = tuple([self.positions[name] for name in named_by])
        named = node_name if isinstance(node_name, str) else None
        self.node_name = named or "".join(part[:1].upper() + part[1:] for part in self.name.split("_")) + "Backward0"
        self._classes: dict[tuple[Any, ...], type[OpNode]] = {}

    @functools.cached_property
    def node_class(self) -> type[OpNode]:
        """The class of its nodes; made when first needed, because making a class takes long, and there are many."""
        base = SequenceOpNode if self.sequence is not None else OpNode
        if self.outputs is not None or self.multi_view:
            base = MultiOpNode if self.sequence is None else MultiSequenceOpNode
        members: dict[str, Any] = {"__slots__": (), "op": self, "rules": self.rules, "releases": self.releases}
        if self.flagless:
            members["plain"] = False  # its gradients are checked, too
        members["result_slots"] = tuple(slot for slot, name in enumerate(self.slots) if name in self.results)
        members["large"] = self.large
        members["blocked"] = self.kind == "elementwise" and self.outputs is None
        members["aside"] = members["blocked"] or bool(self.factors)  # products may run in threads that report no flags
        for slot, name in enumerate(self.slots):
            members[f"_saved_{name}"] = saved_property(slot)
            if name in self.positions or name in self.results:
                members[f"_raw_saved_{name}"] = raw_saved_property(slot)
        if "input" in self.slots:
            members["_saved_self"] = members["_saved_input"]
            members["_raw_saved_self"] = members["_raw_saved_input"]
        return type(self.node_name, (base,), members)

    @functools.cached_property
    def half_class(self) -> type[OpNode]:
        """The class of its nodes with float16 results: if the result is computed in float32, its rules are, too."""
        if not self.opmath or self.ufunc is not None:
            return self.node_class
        rules = tuple((in_single(rule), slots) for rule, slots in self.rules)
        return type(self.node_name, (self.node_class,), {"__slots__": (), "rules": rules})

    def class_for(self, bound: Sequence[Any], is_half: bool = False, is_inplace: bool = False) -> type[OpNode]:
        """The class of the node for a call with these arguments, whose result may be float16, or written in place."""
        usual = self.half_class if is_half else self.node_class
        skipped = self.forms if is_inplace else 0
        if self.naming is None and not skipped:
            return usual
        key = (usual, skipped, *[type(bound[position]) for position in self.naming_positions])
        found = self._classes.get(key)
        if found is None:
            given = [bound[position] for position in self.naming_positions]
            name = self.node_name if self.naming is None else self.naming(*given)
            found = self._classes[key] = self._named(usual, _counted_on(name, skipped))
        return found

    def _named(self, usual: type[OpNode], name: str) -> type[OpNode]:
        """``usual`` under another name, always the same class."""
        known = [usual, *(each for each in self._classes.values() if issubclass(each, usual))]
        return next((each for each in known if each.__name__ == name), None) or type(name, (usual,), {"__slots__": ()})

    @functools.cached_property
    def _synonyms(self) -> dict[str, str]:
        return synonyms(self.params, self.params[0])

    @functools.cached_property
    def savers(self) -> tuple[Saver, ...]:
        """For each slot, what fills it; see :mod:`retrograd.core.slots`."""
        return tuple(compile_saver(self, slot) for slot in self.slots)

    @functools.cached_property
    def input_slot(self) -> int | None:
        """Which slot keeps the first argument, if a rule needs it."""
        return self.slots.index(self.params[0]) if self.params[0] in self.slots else None

    @functools.cached_property
    def result_slot(self) -> int | None:
        """Which slot keeps the result, if a rule needs it."""
        return self.slots.index("result") if "result" in self.slots else None

    def savers_for(self, mask: int) -> Sequence[Saver | None]:
        """For each slot, what fills it when only the arguments in the bit mask need a gradient; or None."""
        found = self._savers.get(mask)
        if found is None:
            pairs = zip(self.savers, self.plan(mask), strict=True)
            found = self._savers[mask] = [saver if wanted else None for saver, wanted in pairs]
        return found

    def _check_name(self, argument: str, wanted: str) -> None:
        if meaning(self, wanted) is None:
            raise TypeError(
                f"{self.name}: the rule for '{argument}' names '{wanted}', which is not one of the parameters "
                f"{self.params}, 'result', or the _shape of a parameter"
            )

    def edge_of(self, slot: str) -> int | None:
        """The position among the edges of the argument saved in ``slot``."""
        if slot not in self.differentiable:
            return None
        return self.differentiable.index(slot)

    def plan(self, mask: int) -> tuple[bool, ...]:
        """Which slots to fill when only the differentiable arguments in the bit mask need a gradient."""
        found = self._plans.get(mask)
        if found is None:
            wanted = {slot for position, (_, slots) in enumerate(self.rules) if mask >> position & 1 for slot in slots}
            found = self._plans[mask] = tuple(
                position in wanted or name in self.kept for position, name in enumerate(self.slots)
            )
        return found

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any], called: str = "") -> list[Any]:
        """All arguments in the order of the parameters, defaults filled in.

        Parameters
        ----------
        called
            The name by which it was called, for errors, if it differs, such as that of the in-place form.

        Raises
        ------
        TypeError
            For unexpected, missing or doubled arguments, as Python would.
        """
        if self.variadic is not None:
            args = self._gather_variadic(args)
        params = self.params
        given = len(args)
        if self.numbers_first and given > self.required:
            args = numbers_last(called or self.name, args, params[self.required :])
        if given > len(params):
            count = f"{len(params)} positional argument{'s' if len(params) > 1 else ''}"
            raise mention_numpy(TypeError(f"{called or self.name}() takes {count} but {given} were given"), self.name)
        if given > self.keepdim_position and not isinstance(args[self.keepdim_position], (bool, np.bool_)):
            raise no_keepdim(called or self.name, "keepdim", self.keepdim_position, args[self.keepdim_position])
        bound = [*args, *self.defaults[given:]]
        if kwargs:
            for key, value in kwargs.items():
                position = self.positions.get(key)
                if position is None and key in self._synonyms:
                    position = self.positions[self._synonyms[key]]
                if position is None:
                    unknown = TypeError(
                        f"{called or self.name}() got an unexpected keyword argument '{key}'; "
                        f"its parameters are {', '.join(params)}"
                    )
                    raise mention_numpy(unknown, self.name)
                if position < given:
                    raise TypeError(f"{called or self.name}() got multiple values for argument '{key}'")
                bound[position] = value
        if given < self.required:
            missing = [name for name, value in zip(params, bound, strict=True) if value is inspect.Parameter.empty]
            if missing:
                listed = ", ".join(map(repr, missing))
                raise mention_numpy(
                    TypeError(f"{called or self.name}() missing required arguments: {listed}"), self.name
                )
        return bound

    def _gather_variadic(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """``x.reshape(2, 3)`` as ``x.reshape((2, 3))``."""
        assert self.variadic is not None
        start = self.positions[self.variadic]
        if len(args) <= start or isinstance(args[start], (tuple, list)):
            return args
        return (*args[:start], tuple(args[start:]))

    def __repr__(self) -> str:
        return f"<operation {self.name}>"


def _register(
    op: Op,
    function: Callable[..., Any],
    *,
    public: bool,
    method: bool,
    inplace: bool,
    aliases: tuple[str, ...],
    namespace: str | None = None,
) -> Callable[..., Any]:
    name = op.name if namespace is None else f"{namespace}.{op.name}"
    op.label = name.replace(".", "_")
    if op.outputs is not None:
        op.output_type = NamedResults(op.label, op.outputs)
    op.call = function
    if public and name in registry.operations:
        raise TypeError(f"operation {name} is defined twice")
    if public:
        registry.operations[name] = op
    function.__doc__ = op.__doc__
    function.__module__ = op.module
    function.__name__ = function.__qualname__ = op.name
    function.__wrapped__ = op.function  # type: ignore[attr-defined]
    function.op = op  # type: ignore[attr-defined]
    if method:
        for alias in (op.name, *aliases):
            registry.add_method(alias, function)
            if not public:
                registry.found_in_tensor(function, op.name)
            if inplace:
                registry.add_method(f"{alias}_", calls.inplace(op, f"{alias}_"))
    if op.ufunc is not None and op.ufunc not in registry.numpy_functions:
        registry.numpy_functions[op.ufunc] = function
    return function


# The keywords that a decorator passes on to Op unchanged.
_OPTIONS = frozenset(Op.__init__.__kwdefaults__ or ()) - {"ufunc", "view", "arrays_too", "write"}


def _decorator(
    kind: str, default_inplace: bool, **fixed: Any
) -> Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]:
    """A decorator for operations of one kind; CONTRIBUTING explains its keywords."""

    def decorate(
        ufunc: np.ufunc | None = None,
        *,
        public: bool = True,
        method: bool = True,
        inplace: bool | Callable[..., None] = default_inplace,
        aliases: tuple[str, ...] = (),
        operator: str | None = None,
        namespace: str | None = None,
        numpy: tuple[Any, ...] = (),
        **keywords: Any,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        options = {key: keywords[key] for key in _OPTIONS.intersection(keywords)}
        rules = {key: rule for key, rule in keywords.items() if key not in options}
        write = None if isinstance(inplace, bool) else inplace

        def register(forward: Callable[..., Any]) -> Callable[..., Any]:
            op = Op(forward, rules, kind=kind, ufunc=ufunc, write=write, **options, **fixed)
            function = calls.caller(op)
            if operator is not None:
                calls.add_operators(op, operator, bool(inplace))
            for numpy_function in numpy:
                registry.numpy_functions[numpy_function] = function
            return _register(
                op, function, public=public, method=method, inplace=bool(inplace), aliases=aliases, namespace=namespace
            )

        return register

    return decorate


elementwise: Any = _decorator("elementwise", True)
elementwise.__doc__ = """An operation whose output at an index depends on its operands at that index only.

The first argument, if given, is the NumPy ufunc that computes it; the function's body is then only its docstring.
Operands are broadcast and promoted as torch does; ``int_to_float`` says that integers become the default float dtype.
``operator="mul"`` makes it ``*`` (with the reflected and in-place forms), too. ``heavy`` says that an element takes
several nanoseconds, so that threads share arrays of medium size already.
"""

linear: Any = _decorator("linear", False)
linear.__doc__ = (
    """An operation that is linear in its differentiable arguments taken together, such as ``sum`` or ``cat``."""
)

op: Any = _decorator("general", False)
op.__doc__ = """Any other operation. ``outputs`` names several outputs, which come as a named tuple."""

view: Any = _decorator("linear", False, view=True)
view.__doc__ = """An operation whose result shares memory with its input whenever NumPy's does."""

kernel: Any = _decorator("general", False, arrays_too=True)
kernel.__doc__ = """An operation for use in rules: called without any Tensor, it is its plain function on arrays."""


def without_flags(decorator: Any) -> Any:
    """The same decorator for functions of libraries that keep their floating-point flags to themselves, as LAPACK does.

    A monitor checks their results instead; see :mod:`retrograd.core.monitor`.
    """
    return functools.partial(decorator, flagless=True)


def without_warnings(decorator: Any) -> Any:
    """The same decorator for functions that call NumPy's Python code, whose warnings would appear as NumPy's."""
    return functools.partial(decorator, quiet=True)
