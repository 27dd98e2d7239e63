"""``rearrange``: its patterns, compared with torch, and its derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.parity import check_both_refuse, message, run

X = np.arange(24.0).reshape(2, 3, 4)

PATTERNS = [
    ("a b c -> c a b", {}),
    ("a b c->a b c", {}),
    ("a  b c  ->  (a   b)c", {}),
    ("a b (c d) -> (a c) b d", {"c": 2}),
    ("a b (c d) -> d c b a", {"c": 2, "d": 2}),
    ("a (b e) c -> a b (e c)", {"e": 3, "a": 2}),
    ("a ... -> (a ...)", {}),
    ("a ... -> a (...)", {}),
    ("... -> (...)", {}),
    ("... -> ...", {}),
    ("... c -> c ... 1", {}),
    ("a ... c -> c (a ...)", {}),
    ("a b c ... -> ... c b a", {}),
    ("a b c -> a () b c", {}),
    ("a b c -> a (1 b) c", {}),
    ("a b (c 1) -> c a b", {}),
    ("x_1 b c -> c b x_1", {}),
]


@pytest.mark.parametrize(("pattern", "lengths"), PATTERNS)
def test_rearranged_values(pattern: str, lengths: dict[str, int]) -> None:
    def program(lib: Any) -> Any:
        y = lib.func.rearrange(lib.tensor(X), pattern, **lengths)
        return y, y.shape, y.is_contiguous()

    assert run(program, rg) == run(program, torch)


@pytest.mark.parametrize(("pattern", "lengths"), [case for case in PATTERNS if "...)" not in case[0]])
def test_rearranging_back_gives_the_input(pattern: str, lengths: dict[str, int]) -> None:
    left, right = pattern.split("->")
    names = {"a": 2, "b": 3, "c": 4} | lengths
    if "d" in pattern:
        names |= {"c": 2, "d": 2}
    if "e" in pattern:
        names |= {"b": 1}
    given = {name: length for name, length in names.items() if name in pattern}
    if "..." in pattern:
        given = {}
    x = rg.tensor(X)
    y = rg.func.rearrange(x, pattern, **lengths)
    assert rg.equal(rg.func.rearrange(y, f"{right} -> {left}", **given), x)


@pytest.mark.parametrize("lib", [torch, rg])
def test_rearranging_lists_of_tensors_and_dimensions_of_length_1(lib: Any) -> None:
    x = lib.tensor(X)
    assert lib.equal(lib.func.rearrange([x, x + 1], "n a b c -> a (b n) c"), lib.stack([x, x + 1], 2).reshape(2, 6, 4))
    assert lib.equal(lib.func.rearrange(x[:, :1], "a () c -> c a"), x[:, 0].T)
    assert lib.equal(lib.func.rearrange(x[:, :1], "a 1 c -> a c"), x[:, 0])
    assert lib.func.rearrange(x[:, :0], "a (b d) c -> a b d c", b=2).shape == (2, 2, 0, 4)
    assert lib.func.rearrange(lib.tensor(3.0), "->").shape == ()


@pytest.mark.parametrize(
    ("pattern", "lengths", "words"),
    [
        ("a b c", {}, "must contain '->' once"),
        ("a -> b -> c", {}, "must contain '->' once"),
        ("a b -> a b", {}, "2 dimensions, but this one has 3"),
        ("a b ... c d -> a b c d ...", {}, "4 or more dimensions, but this one has 3"),
        ("a b c -> a b", {}, "'c' is only on the left"),
        ("a b c -> a b c d", {}, "'d' is only on the right"),
        ("a b c -> a b c ...", {}, "'...' is only on the right"),
        ("a a c -> a c", {}, "'a' appears twice"),
        ("a ... ... -> a ...", {}, "'...' appears twice"),
        ("(a ...) c -> a ... c", {}, "in parentheses on the left"),
        ("a (b (d)) c -> a b c d", {}, r"cannot parse '('"),
        ("a b c) -> a b c", {}, "cannot parse ')'"),
        ("a (b c -> a b c", {}, "not closed"),
        ("_a b c -> _a b c", {}, "cannot parse '_a'"),
        ("a b c -> a b 2 c", {}, "cannot parse '2'"),
        ("a b c -> a-b c", {}, "cannot parse '-'"),
        ("a b c -> a b c", {"d": 2}, "d=2 is given"),
        ("a b c -> a b c", {"a": 2.0}, "a must be int"),
    ],
)
def test_wrong_patterns_are_refused(pattern: str, lengths: Any, words: str) -> None:
    check_both_refuse(lambda lib: lib.func.rearrange(lib.tensor(X), pattern, **lengths))
    assert words in message(lambda: rg.func.rearrange(rg.tensor(X), pattern, **lengths))


@pytest.mark.parametrize(
    ("pattern", "lengths", "words"),
    [
        ("a b (c d) -> a b c d", {}, "the lengths of c, d"),
        ("a b (c d) -> a b c d", {"c": 3}, "dimension 2, of size 4, does not match 3 x d"),
        ("a b (c d) -> a b c d", {"c": 0}, "dimension 2, of size 4, does not match 0 x d"),
        ("a b (c d) -> a b c d", {"c": 2, "d": 3}, "dimension 2, of size 4, does not match 2 x 3"),
        ("a b c -> a b c", {"a": 3}, "dimension 0, of size 2, does not match 3"),
        ("1 b c -> b c", {}, "dimension 0, of size 2, does not match 1"),  # torch silently drops half of the tensor
    ],
)
def test_wrong_lengths_are_refused(pattern: str, lengths: Any, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        rg.func.rearrange(rg.tensor(X), pattern, **lengths)
    assert words in str(caught.value)


def test_rearrange_takes_only_tensors() -> None:
    for wrong in (X, "x", [X], None):
        with pytest.raises(TypeError, match="expected a tensor"):
            rg.func.rearrange(wrong, "a b c -> c b a")  # type: ignore[arg-type]


def test_rearrange_returns_a_view_if_possible() -> None:
    x = rg.zeros(2, 3, 4)
    rg.func.rearrange(x, "a b (c d) -> d (a b) c", c=2)[1, 0, 0] = 1.0
    assert x.nonzero().tolist() == [[0, 0, 1]]


def test_derivatives_of_rearrange() -> None:
    x = rg.tensor(X, requires_grad=True)

    def f(x: rg.Tensor) -> rg.Tensor:
        return rg.func.rearrange(x * x, "a b (c d) -> (d a) b c 1", d=2)

    assert rg.autograd.gradcheck(f, x, check_forward_ad=True)
    assert rg.autograd.gradgradcheck(f, x)


def test_vmap_of_rearrange() -> None:
    x = rg.tensor(X)
    each = rg.func.vmap(lambda x: rg.func.rearrange(x, "b (c d) -> d (b c)", d=2), in_dims=1)(x)
    assert rg.equal(each, rg.func.rearrange(x, "a b (c d) -> b d (a c)", d=2))
