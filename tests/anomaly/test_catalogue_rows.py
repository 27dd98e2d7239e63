"""Rows that no forward run of torch shows, events with little information, other spellings, and near misses."""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from retrograd.anomaly.catalogue import Diagnosis, diagnose, explain
from retrograd.anomaly.event import NaNEvent
from retrograd.anomaly.surroundings import Operand, Operation, Surroundings
from tests.anomaly.programs import PROGRAMS, ZERO, leaf
from tests.anomaly.tracing import run

pytestmark = pytest.mark.filterwarnings("ignore:(std|var).* degrees of freedom:UserWarning")

# Events from outside single operations


def outside(**known: Any) -> NaNEvent:
    context = known.pop("context", {})
    operation = known.pop("operation", None)
    return NaNEvent(surroundings=Surroundings(operation=operation, context=context), **known)


def remedied(event: NaNEvent, row: int | None) -> str:
    found = diagnose(event)
    assert found.number == row, found
    assert found.remedy is not None
    ast.parse(found.remedy)
    return found.remedy


def test_the_remedy_for_a_bad_batch_drops_its_bad_samples() -> None:
    event = outside(
        kind="leaf", op="leaf", nan_count=2, size=6, output_has_nan=True, context={"leaf": "batch", "name": "images"}
    )
    images = torch.tensor([[1.0, math.nan], [2.0, 3.0], [math.inf, 0.0]])
    namespace = {"torch": torch, "images": images}
    exec(remedied(event, 48), namespace)
    assert namespace["images"].tolist() == [[2.0, 3.0]]
    assert "2 NaN of 6" in diagnose(event).cause


def test_the_cause_calls_bad_targets_targets() -> None:
    event = outside(kind="leaf", op="leaf", context={"leaf": "target", "name": "labels"})
    assert "The targets" in diagnose(event).cause
    assert remedied(event, 48).startswith("labels = ")


def model() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(2, 2))


def test_the_remedy_for_an_uninitialised_parameter_initialises_it() -> None:
    event = outside(
        kind="leaf",
        op="leaf",
        nan_count=1,
        output_stats={"min": -1e30, "max": 3.0, "mean": 0.0},
        context={"leaf": "parameter", "name": "0.weight", "updates": 0},
    )
    namespace = {"torch": torch, "model": model()}
    namespace["model"][0].weight.data.fill_(math.nan)
    exec(remedied(event, 49), namespace)
    assert namespace["model"][0].weight.isfinite().all()


@pytest.mark.parametrize("updates", [0, 12])
def test_a_weight_that_is_not_finite_has_no_remedy_but_a_checkpoint(updates: int) -> None:
    event = outside(
        kind="leaf",
        op="leaf",
        nan_count=1,
        output_stats={"min": -1.0, "max": 1.0, "mean": 0.0},
        context={"leaf": "parameter", "name": "0.weight", "updates": updates},
    )
    found = diagnose(event)
    assert (found.number, found.remedy) == (50, None)  # a number in its place would be one that nobody has learned
    assert ("when training began", "after 12 steps")[updates > 0] in found.cause
    assert "go back to a checkpoint" in found.cause


def test_the_remedy_for_an_infinite_norm_makes_clipping_raise() -> None:
    line = "torch.nn.utils.clip_grad_norm_(params, max_norm=2.0)"
    context = {"clip_grad_norm": {"total_norm": math.inf, "max_norm": 2.0, "code_line": line}}
    event = outside(kind="invalid", op="clip_grad_norm_", context=context)
    params = [torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)]
    params[0].grad, params[1].grad = torch.tensor([math.inf, 1.0]), torch.ones(2)
    with pytest.raises(RuntimeError, match="non-finite"):
        exec(remedied(event, 45), {"torch": torch, "params": params})
    assert params[1].grad.isfinite().all()
    general = remedied(
        outside(kind="invalid", op="clip_grad_norm_", context={"clip_grad_norm": {"total_norm": math.nan}}), 45
    )
    assert "error_if_nonfinite=True" in general


def test_the_remedy_for_adam_without_eps_keeps_the_weights_finite() -> None:
    line = "optimizer = torch.optim.Adam([w], lr=0.1, eps=0.0)"
    optimizer = {"name": "Adam", "lr": 0.1, "eps": 0.0, "updating": True, "code_line": line}
    remedy = remedied(outside(kind="invalid", op="addcdiv", context={"optimizer": optimizer}), 46)

    def stepped(code: str) -> torch.Tensor:
        namespace = {"torch": torch, "w": torch.ones(2, requires_grad=True)}
        exec(code, namespace)
        namespace["w"].grad = torch.zeros(2)
        namespace["optimizer"].step()
        return namespace["w"]

    assert stepped(line).isnan().all()
    assert stepped(remedy).isfinite().all()


def test_adam_in_float16_gets_a_larger_eps() -> None:
    optimizer = {"name": "AdamW", "lr": 0.1, "eps": 1e-8, "updating": True}
    event = outside(kind="invalid", op="div", dtype="float16", context={"optimizer": optimizer})
    assert "eps=1e-4" in remedied(event, 46)
    assert diagnose(replace(event, dtype="float32")).number != 46


def test_infinities_of_two_paths_that_meet_in_a_gradient_are_both_named() -> None:
    x = torch.zeros(1, requires_grad=True)
    (torch.sqrt(x) - torch.sqrt(2 * x)).sum().backward()
    assert x.grad is not None
    assert x.grad.isnan().all()
    input = Operand(name="input", value=0.0, shape=(1,), leaf_name="x")
    first = Operation(op="sqrt", args=(input,), code_line="a = torch.sqrt(x)", lineno=3)
    second = Operation(op="sqrt", args=(input,), code_line="b = torch.sqrt(x)", lineno=4)
    gradients = (
        Operand(name="input", value=math.inf, producer=first),
        Operand(name="other", value=-math.inf, producer=second),
    )
    event = outside(
        kind="invalid",
        op="AccumulateGrad",
        is_backward=True,
        operation=Operation(op="AccumulateGrad", args=gradients),
        harmed="the gradient of x",
    )
    assert remedied(event, 44) == "a = torch.sqrt(x + 1e-12)"
    assert diagnose(event).lineno == 3
    assert "the gradient of x" in diagnose(event).cause
    assert "sqrt (line 3) and sqrt (line 4)" in diagnose(event).cause


def runaway(**context: Any) -> NaNEvent:
    matmul = Operation(op="matmul", args=(Operand(name="input", value=1e30), Operand(name="other", value=1e30)))
    return outside(kind="overflow", op="matmul", posinf_count=1, operation=matmul, context=context)


def test_the_remedy_for_a_learning_rate_that_is_too_high_lowers_it_in_its_line() -> None:
    line = "opt = torch.optim.SGD(net.parameters(), lr=10.0, momentum=0.9)"
    where = {"col": line.index("10.0"), "end_col": line.index(", momentum")}
    rate = {"name": "10.0", "lr": 10.0, "code_line": line, "lineno": 3, **where}
    optimizer = {"name": "SGD", "lr": 10.0, "code_line": line, "lineno": 3, "rate": rate}
    event = runaway(optimizer=optimizer, update_ratio=40.0, loss_history=(2.0, 300.0, 4e6, 5e14))
    assert remedied(event, 47) == "opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)"
    assert "40" in diagnose(event).cause
    assert "2, 300, 4e+06, 5e+14" in diagnose(event).cause
    assert remedied(runaway(grad_norm_history=(1.0, 50.0, 1e4)), 47)


def test_two_steps_of_growth_are_recognised_as_a_runaway() -> None:
    event = runaway(loss_history=(2.5e3, 1.7e15, math.inf), grad_norm_history=(2e3, 1.8e12, None))
    assert "2e+03, 1.8e+12." in diagnose(event).cause
    assert remedied(event, 47)
    assert diagnose(runaway(loss_history=(2.0, 900.0, math.inf))).number == 53


def test_a_huge_incoming_gradient_is_evidence_of_a_runaway() -> None:
    """In the backward of a normalisation of a deep model, the weights may not be large yet."""
    norm = Operation(op="layer_norm", args=(Operand(name="input", value=1e6), Operand(name="weight", value=784.0)))

    def event(grad: float) -> NaNEvent:
        return NaNEvent(
            kind="invalid",
            op="NativeLayerNormBackward0",
            is_backward=True,
            nan_count=1,
            surroundings=Surroundings(
                operation=norm, grad_value=grad, context={"loss_history": (2.0, 1e6, 8e6, 1e10, 1.4e10)}
            ),
        )

    assert diagnose(event(3e28)).number == 47
    assert "gave NaN in the gradients: the loss went 1e+06, 8e+06, 1e+10, 1.4e+10" in diagnose(event(3e28)).cause
    assert diagnose(event(1.0)).number != 47


def test_the_newest_losses_are_the_evidence_where_no_newer_norm_is_known() -> None:
    """Gradients are not looked at in each step, where that would cost too much."""
    event = runaway(loss_history=(1.0, 1e5, 1e12, math.inf), grad_norm_history=(2.0, 7e4, 3e8, *[None] * 9))
    assert "the loss went 1, 1e+05, 1e+12" in diagnose(event).cause


def test_healthy_growth_is_not_a_runaway() -> None:
    event = runaway(update_ratio=1e-3, loss_history=(2.0, 1.9, 1.8), optimizer={"name": "SGD", "lr": 0.1})
    assert diagnose(event).number == 53


def test_a_loss_near_zero_that_rises_is_not_a_runaway() -> None:
    event = runaway(loss_history=(8e-5, 1e-6, 2e-8, 9e-10, 1e-7, 1e-5), optimizer={"name": "Adam", "lr": 1e-3})
    assert diagnose(event).number == 53


def test_a_loss_scale_that_keeps_falling_is_recognised() -> None:
    event = outside(kind="invalid", op="my_op", context={"scale_history": (65536.0, 32768.0, 16384.0, 8192.0, 4096.0)})
    assert diagnose(event).title == "loss scale that keeps falling"
    assert 'autocast("cuda", enabled=False)' in (diagnose(event).remedy or "")
    on_cpu = {"scale_history": (8.0, 4.0, 2.0, 1.0, 0.5), "scaled_on": "cpu"}
    event = outside(kind="invalid", op="my_op", context=on_cpu)
    assert 'autocast("cpu", enabled=False)' in (diagnose(event).remedy or "")
    steady = outside(kind="invalid", op="my_op", context={"scale_history": (65536.0, 32768.0, 32768.0)})
    assert diagnose(steady).title == "unknown cause"


# Rows that torch guards or raises on


def test_the_remedy_for_zero_to_the_power_gives_a_finite_gradient_of_the_exponent() -> None:
    base = Operand(name="input", value=0.0, shape=(2,), leaf_name="b", requires_grad=False)
    exponent = Operand(name="exponent", value=2.0, shape=(2,), leaf_name="p", requires_grad=True)
    operation = Operation(op="pow", args=(base, exponent), code_line="y = b**p")
    event = outside(kind="divide", op="PowBackward1", is_backward=True, nan_count=1, operation=operation)
    remedy = remedied(event, 23)
    namespace = {"torch": torch, "b": torch.tensor([0.0, 2.0]), "p": torch.tensor([2.0, 2.0], requires_grad=True)}
    exec(remedy, namespace)
    namespace["y"].sum().backward()
    assert namespace["y"].isfinite().all()
    assert namespace["p"].grad.isfinite().all()


@pytest.mark.parametrize(
    ("op", "code", "matrix"),
    [
        ("linalg_cholesky", "y = torch.linalg.cholesky(A)", [[1.0, 1.0], [1.0, 1.0]]),
        ("linalg_inv", "y = torch.linalg.inv(A)", [[1.0, 2.0], [2.0, 4.0]]),
        ("linalg_solve", "y = torch.linalg.solve(A, torch.ones(2))", [[1.0, 2.0], [2.0, 4.0]]),
        ("inverse", "y = A.inverse()", [[1.0, 2.0], [2.0, 4.0]]),
        ("logdet", "y = torch.logdet(A)", [[1.0, 2.0], [2.0, 4.0]]),
    ],
)
def test_the_remedy_for_a_singular_matrix_gives_finite_results_and_gradients(
    op: str, code: str, matrix: list[list[float]]
) -> None:
    operation = Operation(op=op, args=(Operand(name="A", shape=(2, 2), dtype="float32"),), code_line=code)
    event = outside(kind="invalid", op=op, operation=operation, context={"error": "The input is singular."})
    assert "The input is singular" in diagnose(event).cause
    leaf = torch.tensor(matrix, requires_grad=True)
    namespace = {"torch": torch, "A": leaf}
    exec(remedied(event, 42), namespace)
    namespace["y"].sum().backward()
    assert namespace["y"].isfinite().all()
    assert leaf.grad is not None
    assert leaf.grad.isfinite().all()


@pytest.mark.parametrize(
    "matrix", ["A + 1e-9", "A + 1e-9 * torch.eye(2)", "A + torch.eye(2) * 1e-9", "A + eps * torch.eye(len(A))"]
)
def test_a_number_that_does_not_help_is_replaced_by_one_on_the_diagonal(matrix: str) -> None:
    code = f"y = torch.linalg.solve({matrix}, torch.ones(2))"
    operation = Operation(op="linalg_solve", args=(Operand(name="A", text=matrix),), code_line=code)
    event = outside(kind="invalid", op="linalg_solve", operation=operation, context={"error": "singular"})
    remedy = remedied(event, 42)
    assert remedy.count("eye") == 1
    assert "1e-9" not in remedy
    assert "eps" not in remedy
    assert ("every element" in (diagnose(event).cause or "")) == ("eye" not in matrix)
    leaf = torch.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
    namespace = {"torch": torch, "A": leaf}
    exec(remedy, namespace)
    namespace["y"].sum().backward()
    assert namespace["y"].isfinite().all()
    assert leaf.grad is not None
    assert leaf.grad.isfinite().all()


def test_the_remedy_for_attention_unmasks_rows_that_are_masked_completely() -> None:
    code = "y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)"
    operation = Operation(op="aten::_scaled_dot_product_flash_attention_for_cpu", code_line=code)
    remedy = remedied(outside(kind="invalid", op="softmax", operation=operation), 19)
    assert remedy == "y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask | ~mask.any(-1, keepdim=True))"
    q = torch.randn(1, 2, 4, requires_grad=True)
    namespace = {
        "F": torch.nn.functional,
        "q": q,
        "k": q,
        "v": q,
        "mask": torch.tensor([[False, False], [True, False]]),
    }
    exec(remedy, namespace)
    namespace["y"].sum().backward()
    assert q.grad is not None
    assert q.grad.isfinite().all()


# Events with little information


@pytest.mark.parametrize(
    ("row", "op", "kind", "operands", "backward"),
    [
        (1, "log", "divide", {"input": 0.0}, False),
        (1, "log", "divide", {}, False),
        (2, "log", "invalid", {"input": -1e-4}, False),
        (2, "log", "invalid", {}, False),
        (10, "SqrtBackward0", "divide", {"input": 0.0}, True),
        (21, "PowBackward0", "divide", {"input": 0.0, "exponent": 0.5}, True),
        (22, "pow", "invalid", {"input": -8.0, "exponent": 1 / 3}, False),
        (24, "AcosBackward0", "divide", {"input": -1.0}, True),
        (25, "np.arccos", "invalid", {"input": 1.0000001}, False),
        (26, "atanh", "divide", {"input": 1.0}, False),
        (27, "exp", "overflow", {"input": 90.0}, False),
        (31, "sub", "invalid", {"input": math.inf, "other": math.inf}, False),
        (32, "aten.div.Tensor", "divide", {"self": 1.0, "other": 0.0}, False),
        (32, "true_divide", "invalid", {"input": 0.0, "other": 0.0}, False),
        (40, "CtcLossBackward0", "invalid", {}, True),
        (43, "LinalgEighBackward0", "divide", {}, True),
    ],
)
def test_a_row_is_recognised_by_operation_and_operands_alone(
    row: int, op: str, kind: str, operands: dict[str, float], backward: bool
) -> None:
    remedied(NaNEvent(kind=kind, op=op, operands=operands, is_backward=backward), row)


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
@pytest.mark.parametrize("code_line", [None, "y = torch.log(", "    ) / torch.foo(x", "helper(x)"])
def test_the_general_remedy_is_valid_python_where_the_line_is_not_usable(program: Any, code_line: str | None) -> None:
    """Where the user's line is unknown, unfinished or elsewhere."""

    def without(operation: Operation) -> Operation:
        args = tuple(replace(arg, producer=without(arg.producer)) if arg.producer else arg for arg in operation.args)
        return replace(operation, args=args, code_line=code_line)

    event = run(program.code, program.setup)
    seen = event.surroundings
    assert seen is not None
    assert seen.operation is not None
    consumers = tuple(without(step) for step in seen.consumers if isinstance(step, Operation))
    event = replace(
        event, code_line=code_line, surroundings=replace(seen, operation=without(seen.operation), consumers=consumers)
    )
    remedied(event, program.row)


@pytest.mark.parametrize(
    ("row", "chain"),
    [(6, ("add", "log")), (9, ("aten.sum.dim_IntList", "log")), (27, ("sum", "mul"))],
)
def test_a_row_is_recognised_where_consumers_are_known_by_name_only(row: int, chain: tuple[str, ...]) -> None:
    operation = Operation(op="exp", args=(Operand(name="input", value=100.0),))
    known = [
        name if name != "add" else Operation(op="add", args=(Operand(name="input", value=math.inf), ONE))
        for name in chain
    ]
    event = NaNEvent(kind="overflow", op="exp", surroundings=Surroundings(operation=operation, consumers=tuple(known)))
    assert diagnose(event).number == row


ONE = Operand(name="other", value=1, constant=True)


# The user's spelling


def respelled(code: str, setup: str, lines: dict[str, str]) -> NaNEvent:
    """The event of a torch program, as retrograd's adapter would tell it of the same program in other words."""
    text = run(code, setup).to_json().replace("torch.float", "float")
    for old, new in lines.items():
        text = text.replace(f'"{old}"', f'"{new}"')
    event = NaNEvent.from_json(text)
    assert event.surroundings is not None
    return replace(event, surroundings=replace(event.surroundings, library="retrograd"))


@pytest.mark.parametrize(
    ("row", "values", "torch_line", "line", "remedy"),
    [
        (1, "[1.0, 0.0]", "y = torch.log(x)", "y = np.log(x)", "y = np.log(np.maximum(x, 1e-12))"),
        (1, "[1.0, 0.0]", "y = torch.log(x)", "y = rg.log(x)", "y = rg.log(rg.clamp(x, min=1e-12))"),
        (
            4,
            "[200.0, 0.0]",
            "y = torch.log(torch.softmax(x, -1))",
            "y = np.log(rg.softmax(x, -1))",
            "y = rg.log_softmax(x, -1)",
        ),
        (
            5,
            "[1.0, 100.0]",
            "y = torch.exp(x) / torch.exp(x).sum(-1)",
            "y = np.exp(x) / np.exp(x).sum(axis=-1)",
            "y = np.exp(x - np.max(x, axis=-1, keepdims=True))"
            " / np.exp(x - np.max(x, axis=-1, keepdims=True)).sum(axis=-1)",
        ),
        (
            6,
            "[1.0, 100.0]",
            "y = torch.log1p(torch.exp(x))",
            "y = np.log1p(np.exp(x))",
            "y = rg.nn.functional.softplus(x)",
        ),
        (
            9,
            "[1.0, 100.0]",
            "y = torch.log(torch.sum(torch.exp(x), -1))",
            "y = np.log(np.sum(np.exp(x), axis=-1))",
            "y = rg.logsumexp(x, dim=-1)",
        ),
        (
            11,
            "[1.0, 0.0]",
            "y = torch.where(x > 0, torch.sqrt(x), 0.0)",
            "y = np.where(x > 0, np.sqrt(x), 0.0)",
            "y = np.where(x > 0, np.sqrt(np.where(x > 0, x, 1.0)), 0.0)",
        ),
        (13, "[0.0, 0.0]", "y = torch.sqrt((x**2).sum())", "y = np.sqrt(np.sum(x**2))", "y = np.linalg.norm(x)"),
        (
            16,
            "[2.0, 2.0]",
            "y = (x - x.mean()) / x.std()",
            "y = (x - np.mean(x)) / np.std(x)",
            "y = (x - np.mean(x)) / np.sqrt(np.var(x) + 1e-5)",
        ),
        (
            24,
            "[1.0, 0.0]",
            "y = torch.acos(x)",
            "y = np.arccos(x)",
            "y = np.arccos(np.clip(x, -1 + 1e-6, 1 - 1e-6))",
        ),
        (32, "[1.0, 0.0]", "y = 1 / x", "y = 1 / x", "y = 1 / rg.where(x == 0, 1e-12, x)"),
        (
            38,
            "[1e-30, 1e-30]",
            "y = torch.log(torch.prod(x))",
            "y = np.log(np.prod(x))",
            "y = np.log(x).sum()",
        ),
        (
            36,
            "[[1e20, 1.0]]",
            "y = torch.sqrt((x**2).sum(1, keepdim=True))",
            "y = np.sqrt(np.sum(x**2, axis=1, keepdims=True))",
            "y = np.linalg.norm(x.astype(np.float64), axis=1, keepdims=True)",
        ),
    ],
)
def test_the_remedy_uses_the_spelling_of_numpy_or_retrograd_that_the_line_uses(
    row: int, values: str, torch_line: str, line: str, remedy: str
) -> None:
    event = respelled(torch_line, leaf(values), {torch_line: line})
    assert remedied(event, row) == remedy
    x = rg.tensor(ast.literal_eval(values), requires_grad=True)
    namespace = {"rg": rg, "np": np, "x": x}
    exec(remedy, namespace)
    namespace["y"].sum().backward()
    assert np.isfinite(namespace["y"].detach().numpy()).all()
    assert x.grad is not None
    assert np.isfinite(x.grad.numpy()).all()


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("return torch.log(x)", "return torch.log(torch.clamp(x, min=1e-12))"),
        ("    loss += torch.log(x)  # the loss", "loss += torch.log(torch.clamp(x, min=1e-12))  # the loss"),
        ("if torch.log(x) > 0:", "if torch.log(torch.clamp(x, min=1e-12)) > 0:"),
        ("elif torch.log(x) > 0:", "elif torch.log(torch.clamp(x, min=1e-12)) > 0:"),
        ("y = [torch.log(größe) for größe in xs]", "y = [torch.log(torch.clamp(größe, min=1e-12)) for größe in xs]"),
        ("y = tr.log(x)", "y = tr.log(tr.clamp(x, min=1e-12))"),
        ("y = log(x)", "y = log(torch.clamp(x, min=1e-12))"),
        ("y = self.scale.log()", "y = self.scale.clamp(min=1e-12).log()"),
        ("self.log('loss', torch.log(x))", "self.log('loss', torch.log(torch.clamp(x, min=1e-12)))"),
        ("y = (a + b).log()", "y = (a + b).clamp(min=1e-12).log()"),
        ("y = torch.log(input=x)", "y = torch.log(input=torch.clamp(x, min=1e-12))"),
        ("y = f(\n    torch.log(x),\n    2,\n)", "y = f(\n    torch.log(torch.clamp(x, min=1e-12)),\n    2,\n)"),
    ],
)
def test_the_remedy_fits_into_statements_of_every_kind(line: str, remedy: str) -> None:
    event = NaNEvent(kind="divide", op="log", operands={"input": 0.0}, code_line=line)
    assert diagnose(event).remedy == remedy


def test_the_column_decides_which_of_two_equal_calls_is_changed() -> None:
    line = "    y = torch.log(a) + torch.log(b)"
    event = NaNEvent(kind="divide", op="log", operands={"input": 0.0}, code_line=line, col=line.rindex("torch"))
    assert diagnose(event).remedy == "y = torch.log(a) + torch.log(torch.clamp(b, min=1e-12))"


def test_the_operands_decide_which_of_two_calls_is_changed() -> None:
    event = run("y = torch.log(a) + torch.log(x)", f"{ZERO}; a = torch.ones(2)")
    assert diagnose(event).remedy == "y = torch.log(a) + torch.log(torch.clamp(x, min=1e-12))"


def test_an_in_place_statement_is_mended_in_place() -> None:
    operands = (Operand(name="input", value=1.0, shape=(2,)), Operand(name="other", value=0.0, shape=(2,)))
    operation = Operation(op="div_", args=operands, code_line="x /= total")
    event = outside(kind="divide", op="div_", operation=operation)
    assert diagnose(event).remedy == "x /= torch.where(total == 0, 1e-12, total)"


# Near misses


@pytest.mark.parametrize(
    ("row", "setup", "code"),
    [
        (1, f"{ZERO}; w = torch.tensor([2.0, 3.0])", "y = w * torch.log(x)"),  # not 3, not 30
        (1, f"{ZERO}; mask = torch.tensor([0.0, 1.0])", "y = torch.log(x) * mask"),  # the mask keeps it
        (1, leaf("[0.0, 1.0]"), "y = torch.log(1 - x)"),  # no sigmoid, no tanh
        (1, leaf("[0.0, 1.0]"), "y = torch.log(torch.relu(x))"),
        (10, ZERO, "y = torch.where(x >= 0, torch.sqrt(x), 0.0)"),  # where keeps it
        (10, ZERO, "y = torch.sqrt(x) + torch.where(x > 0, x, 0.0)"),  # another where
        (27, leaf("[1.0, 100.0]"), "y = torch.exp(x) - 1"),
        (27, leaf("[1.0, 100.0]"), "y = torch.sin(2 + torch.exp(x))"),
        (32, f"{ZERO}; a = torch.ones(2)", "y = a / x"),
        (32, leaf("[1.0, -1.0]"), "y = x / x.sum()"),  # a sum of values is no count
        (53, leaf("[1e30, 1.0]"), "y = (x * x).sum()"),  # no root, no float16
        (None, "x = torch.tensor([float('inf'), 1.0], requires_grad=True)", "y = torch.softmax(x, -1)"),
        (16, leaf("[2.0, 2.0]"), "y = x / x.std()"),
    ],
)
def test_programs_near_a_row_are_not_taken_for_it(row: int | None, setup: str, code: str) -> None:
    found = diagnose(run(code, setup))
    assert found.number == row, found


def test_a_root_of_a_negative_number_is_a_domain_error() -> None:
    found = diagnose(run("y = torch.sqrt(x)", leaf("[1.0, -1.0]")))
    assert found.number is None
    assert found.title == "argument outside the function's domain"
    assert "-1" in found.cause
    assert found.remedy is None  # a clamp would only hide it


def test_an_unknown_cause_is_called_unknown() -> None:
    found = diagnose(NaNEvent(kind="overflow", op="my_kernel", operands={"input": 3e38}, posinf_count=1))
    assert found == Diagnosis(None, "unknown cause", found.cause, None)
    assert "not in the catalogue" in found.cause
    assert "my_kernel gave Inf for input=3e+38" in found.cause
    assert "gradient norm" in found.cause


def test_the_explanation_contains_the_values() -> None:
    assert "exp(100)" in diagnose(run("y = torch.exp(x)", leaf("[1.0, 100.0]"))).cause
    assert "1.0000001" in diagnose(run("y = torch.acos(x)", leaf("[1.0000001]"))).cause


def test_explain_adds_cause_and_remedy_to_the_event() -> None:
    event = explain(run("y = torch.log(x)", ZERO))
    assert event.remedy == "y = torch.log(torch.clamp(x, min=1e-12))"
    assert event.remedy_lineno == 1
    assert event.cause == diagnose(event).cause
    assert NaNEvent.from_json(event.to_json()) == event


@pytest.mark.parametrize("library", ["torch", "retrograd"])
@pytest.mark.parametrize(
    ("op", "kind", "dtype"), [("layer_norm", "invalid", "float16"), ("rnn_relu", "overflow", "float32")]
)
def test_the_remedy_makes_a_layer_with_the_programs_library(library: str, op: str, kind: str, dtype: str) -> None:
    found = diagnose(NaNEvent(kind=kind, op=op, dtype=dtype, surroundings=Surroundings(library=library)))
    namespace: dict[str, Any] = {"torch": torch, "rg": rg, "size": 3, "input_size": 3, "hidden_size": 2}
    exec(found.remedy or "", namespace)
    layer = namespace.get("layer") or namespace["rnn"]
    assert type(layer).__module__.startswith(library)
    assert op != "layer_norm" or layer.eps == 1e-4, "in float16 it must be 1e-4 or more"
