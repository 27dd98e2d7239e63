"""Mixed precision under torch's names."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch

import retrograd as rg
from tests.parity import attempt, parity


def start(m: Any, **options: Any) -> tuple[Any, Any, Any]:
    w = m.tensor([1.0, -2.0], requires_grad=True)
    return w, m.optim.SGD([w], lr=0.5), m.amp.GradScaler("cpu", **options)


@parity
def test_grad_scaler_over_steps_with_overflows_matches_torch(m: Any) -> Any:
    w, optimizer, scaler = start(m, init_scale=2.0**120, growth_interval=2)
    seen = []
    for step in range(9):
        optimizer.zero_grad()
        factor = 300.0 if step in (0, 1, 5) else 0.25
        scaler.scale((w * factor).sum() + (w * w).sum() * 0.1).backward()
        if step % 2:
            scaler.unscale_(optimizer)
            m.nn.utils.clip_grad_norm_([w], 10.0, error_if_nonfinite=False)
        scaler.step(optimizer)
        scaler.update()
        seen.append((scaler.get_scale(), w.detach().clone(), scaler.state_dict()))
    return seen


@parity
def test_scaling_tensors_and_containers(m: Any) -> Any:
    _, _, scaler = start(m, init_scale=4.0)
    x, y = m.ones(2), m.ones(1) * 3
    return [
        scaler.scale(x),
        scaler.scale([x, (y,)]),
        list(scaler.scale(iter([x, y]))),
        attempt(lambda: scaler.scale(3.0)),
        m.amp.GradScaler("cpu", enabled=False).scale(3.0),
    ]


@parity
def test_misuse_of_the_grad_scaler_raises_as_in_torch(m: Any) -> Any:
    def twice(first: str, second: str) -> Any:
        w, optimizer, scaler = start(m)
        scaler.scale(w.sum()).backward()
        getattr(scaler, first)(optimizer)
        return attempt(lambda: getattr(scaler, second)(optimizer))

    def half() -> Any:
        w = m.ones(1, dtype=m.float16, requires_grad=True)
        scaler = m.amp.GradScaler("cpu", init_scale=2.0)
        scaler.scale(w.sum()).backward()
        return attempt(lambda: scaler.unscale_(m.optim.SGD([w], lr=1.0)))

    def without_gradients() -> Any:
        w, optimizer, scaler = start(m)
        scaler.scale(w.sum())
        return attempt(lambda: scaler.step(optimizer))

    def closure() -> Any:
        w, optimizer, scaler = start(m)
        scaler.scale(w.sum()).backward()
        return attempt(lambda: scaler.step(optimizer, closure=lambda: None))

    return [
        *(twice(*order) for order in [("unscale_", "unscale_"), ("step", "unscale_"), ("step", "step")]),
        half(),
        without_gradients(),
        closure(),
        attempt(lambda: start(m)[2].load_state_dict({})),
    ]


@pytest.mark.parametrize("options", [{"growth_factor": 1.0}, {"backoff_factor": 1.0}])
def test_invalid_growth_and_backoff_factors_raise(options: dict[str, float]) -> None:
    with pytest.raises(AssertionError, match=next(iter(options))):
        rg.amp.GradScaler("cpu", **options)


def test_update_without_step_or_unscale_raises() -> None:
    w, optimizer, scaler = start(rg)
    scaler.scale(w.sum())
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()
    with pytest.raises(AssertionError, match="none of its parameters has a gradient"):
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()


@pytest.mark.parametrize("method", ["unscale_", "step", "update"])
@pytest.mark.parametrize("m", [torch, rg], ids=["torch", "retrograd"])
def test_gradients_of_an_unscaled_loss_are_not_divided(m: Any, method: str) -> None:
    w, optimizer, scaler = start(m)
    w.sum().backward()
    with pytest.raises(AssertionError, match=r"scaler\.scale\(loss" if m is rg else "_scale is None"):
        getattr(scaler, method)(*[optimizer] * (method != "update"))
    assert w.grad.tolist() == [1, 1]


@parity
def test_scaling_a_float16_loss_does_not_overflow(m: Any) -> Any:
    w, optimizer, scaler = start(m, init_scale=2.0**15)
    loss = scaler.scale((w.half() ** 2).sum())
    loss.backward()
    scaler.step(optimizer)
    return loss, w, scaler.scale(m.ones(2, dtype=m.float16))


@parity
def test_grad_scaler_state_dict_round_trip(m: Any) -> Any:
    w, optimizer, scaler = start(m, growth_interval=3)
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(2)
    scaler.scale(w.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    other = m.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    other.scale(w.sum())
    other.step(optimizer)
    other.update(8.0)
    return [
        scaler.state_dict(),
        other.state_dict(),
        (other.get_growth_factor(), other.get_backoff_factor(), other.get_growth_interval(), other.is_enabled()),
    ]


def test_grad_scale_stays_within_float32() -> None:
    w, optimizer, scaler = start(rg, init_scale=2.0**127, growth_interval=1)
    scaler.scale((w * 1e-30).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**127
    assert math.isfinite(w.sum().item())


@pytest.mark.skipif(rg.cuda.is_available(), reason="there is a GPU")
def test_mixed_precision_disables_itself_without_a_gpu() -> None:
    for make in (rg.amp.GradScaler, rg.cuda.amp.GradScaler):
        with pytest.warns(UserWarning, match="GradScaler is disabled: CUDA is not available"):
            scaler = make()
        assert not scaler.is_enabled()
        assert scaler.state_dict() == {}
        assert scaler.get_scale() == 1.0
    for make in (lambda: rg.autocast("cuda", dtype=rg.float16), rg.cuda.amp.autocast):
        with pytest.warns(UserWarning, match="autocast is disabled: CUDA is not available"):
            make()


def test_autocast_on_the_cpu_warns_and_changes_no_dtypes() -> None:
    with pytest.warns(UserWarning, match=r"autocast is disabled: .* convert them with \.half\(\)"):
        region = rg.amp.autocast("cpu")
    with region:
        assert (rg.ones(2, 2) @ rg.ones(2, 2)).dtype == rg.float32
        assert not rg.is_autocast_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rg.autocast("cpu", enabled=False), rg.cuda.amp.autocast(enabled=False):
            pass

        @rg.autocast("cuda", enabled=False)
        def function() -> int:
            return 3

    assert function() == 3
    with pytest.raises(RuntimeError, match="tpu"):
        rg.autocast("tpu")
    with pytest.raises(ValueError, match="str"):
        rg.autocast(rg.device("cpu"))
    assert not rg.amp.is_autocast_available("cpu")


def test_custom_fwd_and_custom_bwd() -> None:
    class Double(rg.autograd.Function):
        @staticmethod
        @rg.amp.custom_fwd(device_type="cuda", cast_inputs=rg.float32)
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        @rg.cuda.amp.custom_bwd
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = rg.ones(2, requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_missing_autocast_functions_raise_with_advice() -> None:
    """Libraries ask for the dtype only where autocast is on."""
    names = [name for name in dir(torch) if "autocast" in name and "xla" not in name and "ipu" not in name]
    for name in names:
        if not hasattr(rg, name):
            with pytest.raises(AttributeError, match="autocast changes no dtypes here"):
                getattr(rg, name)
