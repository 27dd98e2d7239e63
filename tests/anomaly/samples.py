"""Events as the tests of reports use them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from retrograd.anomaly.event import GradEvent, NaNEvent

EVENT = NaNEvent(
    kind="divide",
    op="log",
    filename="train.py",
    lineno=41,
    function="loss_fn",
    code_line="    return -(target * rg.log(p)).sum() / len(target)",
    index=(3, 7),
    operands={"input": 0.0},
    neginf_count=12,
    size=320,
    output_shape=(32, 10),
    dtype="float32",
    output_stats={"min": -103.2789, "max": -0.5, "mean": -14.25},
    output_has_inf=True,
    step=47012,
    path=("LogBackward0", "MulBackward0", "SumBackward0", "NegBackward0", "DivBackward0"),
    harmed="loss",
    cause="softmax(logits) is exactly 0 where a logit is more than about 104 below the largest in its row, "
    "and log(0.0) is -inf. Multiplied by the 0 of the target it becomes NaN, and the loss with it.",
    remedy="return -(target * rg.log_softmax(logits, 1)).sum() / len(target)",
)
BACKWARD = NaNEvent(
    kind="invalid",
    op="SqrtBackward0",
    is_backward=True,
    filename="model.py",
    lineno=7,
    code_line="d = rg.sqrt(s)",
    operands={"input": 0.0, "grad": 0.0},
    index=(0,),
    nan_count=1,
    size=4,
    output_shape=(4,),
    dtype="float64",
    step=47020,
    path=("SqrtBackward0", "AccumulateGrad"),
    harmed="the gradient of fc.weight",
)
SPIKE = GradEvent(batch_idx=47000, layer_name="fc", param_name="weight", grad_norm=1234.5, threshold=100.0)
HISTORY = [{"step": 47000 + i, "loss": 0.5 / (i + 1), "grad_norm": 1.5 * 2.0**i} for i in range(12)] + [
    {"step": 47012, "loss": math.nan, "grad_norm": math.inf}
]


def event(**changes: Any) -> NaNEvent:
    return replace(EVENT, **changes)
