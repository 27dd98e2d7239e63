"""Writing a remedy in the spelling of the user's line: torch, retrograd or NumPy, functions or methods."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace

from retrograd.anomaly.catalogue._imports import UNRESOLVED, imported, is_module, module_called, name_of
from retrograd.anomaly.catalogue._source_line import NOWHERE, Line, Site, atom, number_written
from retrograd.anomaly.parsing import expression_of

_LIBRARIES = {"torch": "torch", "retrograd": "rg", "numpy": "np"}
_NUMPY = ("numpy", "jax.numpy")
_ROOTS = ("torch", "retrograd", *_NUMPY)


@dataclass(frozen=True)
class Spelling:
    """How to write a call: from which module, by which library's names, and whether as a method.

    ``complex`` says whether the code is about complex numbers.
    """

    module: str = "torch"
    library: str = "torch"
    methods: bool = False
    functional_module: str = "torch.nn.functional"
    complex: bool = False

    @staticmethod
    def of(library: str, line: Line, site: Site = NOWHERE) -> Spelling:
        """The spelling of a place in the user's program; without one, that of the library."""
        usual = _LIBRARIES.get(library, "torch")
        own = name_of(module_called(usual), usual)
        modules = list(line.modules())
        is_method = site.written.form == "method"
        roots = _NUMPY if library == "numpy" else _ROOTS  # plain arrays are not for tensors' functions
        module = next((name for name in modules if module_called(name) in roots), None)
        if module is None:  # NumPy's functions take retrograd's tensors, in files that import nothing else
            for_arrays = library == "retrograd" and not is_method and not imported("retrograd")
            module = next(iter(imported("numpy")), own) if for_arrays else own
        if site.written.form == "function":
            root = site.written.prefix.split(".")[0]
            if root and (not is_module(root) or module_called(root) in (*_ROOTS, UNRESOLVED)):
                module = root
        tensors = module
        if module_called(module) in _NUMPY:
            tensors = name_of("retrograd", "rg") if module_called(own) in _NUMPY else own
        functional = f"{module_called(tensors)}.nn.functional"
        called = "F" if "F" in modules else name_of(functional, f"{tensors}.nn.functional")
        return Spelling(module, tensors, is_method, called)

    @property
    def numpy(self) -> bool:
        return module_called(self.module) in _NUMPY

    def clamp(self, text: str, low: str | None = None, high: str | None = None) -> str:
        """The expression, kept between two bounds; if complex, kept away from 0, or its real part below a bound.

        An expression that is a clamp itself gets the tighter bounds of both.
        """
        text, low, high = _merged(text, low, high)
        if self.complex and low:
            return self.where(f"{atom(text)} == 0", low, text)
        if self.complex:
            real, imaginary = f"{atom(text)}.real", f"{atom(text)}.imag"
            bounded = replace(self, complex=False).clamp(real, None, high)
            return f"{bounded} + 1j * {imaginary}" if self.numpy else self.tensor_call("complex", bounded, imaginary)
        if self.numpy and low and high:
            return f"{self.module}.clip({text}, {low}, {high})"
        if self.numpy:
            return f"{self.module}.maximum({text}, {low})" if low else f"{self.module}.minimum({text}, {high})"
        bounds = ", ".join(part for part in (f"min={low}" if low else "", f"max={high}" if high else "") if part)
        return f"{atom(text)}.clamp({bounds})" if self.methods else f"{self.module}.clamp({text}, {bounds})"

    def where(self, condition: str, chosen: str, other: str) -> str:
        return f"{self.module}.where({condition}, {chosen}, {other})"

    def call(self, name: str, *arguments: str) -> str:
        """A function that torch, retrograd and NumPy all call by this name."""
        return f"{self.module}.{name}({', '.join(part for part in arguments if part)})"

    def tensor_call(self, name: str, *arguments: str) -> str:
        """A function that NumPy does not have."""
        return f"{self.library}.{name}({', '.join(part for part in arguments if part)})"

    def functional(self, name: str, *arguments: str) -> str:
        """A function of ``nn.functional``."""
        return f"{self.functional_module}.{name}({', '.join(part for part in arguments if part)})"


def _merged(text: str, low: str | None, high: str | None) -> tuple[str, str | None, str | None]:
    """What a clamp bounds, with the tighter ones of its bounds and the given ones, if its own are numbers."""
    line = Line.parse(text)
    call = line.only("clamp")
    inner, lowest, highest = call.text(0, "input", "a"), call.text(1, "min", "a_min"), call.text(2, "max", "a_max")
    own = [_number(expression_of(each)) for each in (lowest, highest) if each is not None]
    if inner is None or line.text(call.node) != text or None in own:
        return text, low, high
    return inner, _tighter(lowest, low, max), _tighter(highest, high, min)


def _tighter(own: str | None, new: str | None, choose: Callable[[float, float], float]) -> str | None:
    """The tighter of two bounds; the new one if it is no number: it is to keep out what the other one let through."""
    if own is None or new is None:
        return own or new
    before, after = _number(expression_of(own)), _number(expression_of(new))
    return own if before is not None and after is not None and choose(before, after) == before else new


def _number(node: ast.expr) -> float | None:
    """The number that an expression such as ``1 - 1e-6`` is."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            one, other = _number(left), _number(right)
            if one is None or other is None:
                return None
            return one + other if isinstance(op, ast.Add) else one - other
    return number_written(node)
