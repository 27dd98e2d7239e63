"""Warnings of torch's name the same lines with a watch as without."""

import contextlib
import inspect
import io
import logging
import warnings

import pytest

import retrograd as rg

torch = pytest.importorskip("torch")
F = torch.nn.functional


def broadcast_by_mistake():
    layer = torch.nn.Linear(3, 1)
    return F.mse_loss(layer(torch.ones(4, 3)), torch.ones(4))


def broadcast_within_a_layer():
    layer = torch.nn.Linear(3, 1)
    return torch.nn.MSELoss()(layer(torch.ones(4, 3)), torch.ones(4))


def schedule_before_update():
    optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)], 0.1)
    torch.optim.lr_scheduler.StepLR(optimizer, 2).step()


def copy_by_tensor():
    torch.tensor(torch.ones(2))


def far_away():
    torch.nn.Softmin()(torch.ones(2, 3))


def from_within_torch():
    torch.add(torch.ones(3), 1, out=torch.ones(1))


def under_a_mode():
    with torch.device("cpu"):
        broadcast_by_mistake()


def own_warning():
    warnings.warn("the program's own", UserWarning, stacklevel=1)


PROGRAMS = [
    broadcast_by_mistake,
    broadcast_within_a_layer,
    schedule_before_update,
    copy_by_tensor,
    far_away,
    from_within_torch,
    under_a_mode,
    own_warning,
]


def given(program):
    """Where the warnings point that a program gives."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        program()
    return [(str(each.message), each.filename, each.lineno) for each in found]


@pytest.mark.parametrize("program", PROGRAMS)
def test_warnings_name_the_same_line_with_a_watch(program):
    expected = given(program)
    assert expected
    shown = warnings._showwarnmsg
    with rg.anomaly.watch():
        assert given(program) == expected
    assert warnings._showwarnmsg is shown
    assert given(program) == expected


def test_warnings_name_the_users_line():
    with rg.anomaly.watch():
        (_, filename, line), *_ = given(broadcast_by_mistake)
    lines, first = inspect.getsourcelines(broadcast_by_mistake)
    assert filename == __file__
    assert "mse_loss" in lines[line - first]


@pytest.mark.parametrize("level", [2, 3])
def test_a_warning_shown_only_in_the_program_is_shown(monkeypatch, level):
    """Whichever of our functions stands where it would point."""

    def zero_grad(module, set_to_none=True):
        warnings.warn("not like this", DeprecationWarning, stacklevel=level)

    def clear():
        torch.nn.Linear(1, 1).zero_grad()

    def given_there(watch):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("ignore")
            warnings.filterwarnings("always", module=__name__.replace(".", r"\."))
            with watch:
                clear()
        return [(each.filename, each.lineno) for each in found]

    monkeypatch.setattr(torch.nn.Module, "zero_grad", zero_grad)
    expected = given_there(contextlib.nullcontext())
    assert len(expected) == 1
    assert given_there(rg.anomaly.watch()) == expected


def test_logging_captures_the_users_line():
    told = io.StringIO()
    handler = logging.StreamHandler(told)
    logging.captureWarnings(True)
    logging.getLogger("py.warnings").addHandler(handler)
    try:
        with rg.anomaly.watch(), warnings.catch_warnings():
            warnings.simplefilter("always")
            broadcast_by_mistake()
    finally:
        logging.getLogger("py.warnings").removeHandler(handler)
        logging.captureWarnings(False)
    assert "test_warnings.py" in told.getvalue()
    assert "function_mode.py" not in told.getvalue()


def in_a_loop():
    """Two lines that give the same warning, in steps that are noted and in others."""
    layer = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(8):
        scheduler.step()
        optimizer.zero_grad()
        loss = F.mse_loss(layer(torch.ones(4, 3)), torch.ones(4))
        loss = loss + F.mse_loss(layer(torch.ones(4, 3)), torch.ones(4))
        torch.nn.Softmin()(torch.ones(2, 3))
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize(
    "filters",
    [
        [("default",)],
        [("module",)],
        [("always",)],
        [("default",), ("ignore", "", UserWarning, __name__)],
        [("default", "", UserWarning, __name__)],
        [("default",), ("ignore", "Using a target size")],
        [("always",), ("ignore", "", UserWarning, "torch.nn.modules.module")],
    ],
    ids=str,
)
def test_warnings_appear_as_often_with_a_watch(filters):
    def shown(watch):
        with warnings.catch_warnings(record=True) as found:
            for each in (("ignore",), *filters):
                warnings.filterwarnings(*each)
            before = list(warnings.filters)
            with watch:
                in_a_loop()
            assert warnings.filters == before
            return [(str(each.message), each.category, each.filename, each.lineno) for each in found]

    assert shown(rg.anomaly.watch()) == shown(contextlib.nullcontext())


def test_warnings_that_are_errors_are_raised():
    def refused():
        with warnings.catch_warnings(), pytest.raises(UserWarning) as caught:
            warnings.resetwarnings()
            warnings.filterwarnings("error", module=__name__)
            broadcast_by_mistake()
        return str(caught.value)

    expected = refused()
    with rg.anomaly.watch():
        assert refused() == expected


def test_without_the_internal_function_of_warnings_nothing_changes(monkeypatch):
    """The function through which every warning goes is not part of Python's documented interface."""
    before = list(warnings.filters)
    monkeypatch.delattr(warnings, "_showwarnmsg")
    with rg.anomaly.watch():
        assert warnings.filters == before
