"""Where a NaN or an infinity was born, why, and what to write instead; before a weight is touched.

>>> x = rg.tensor([4.0, 0.0], requires_grad=True)
>>> with rg.anomaly.watch(policy="record") as w:
...     rg.where(x > 0, rg.sqrt(x), 0.0).sum().backward()
>>> w.event.op, w.event.index, w.event.harmed
('SqrtBackward0', (1,), 'the gradient of x')
"""

from retrograd.anomaly.catalogue import diagnose
from retrograd.anomaly.event import GradEvent, NaNEvent, event_from_json
from retrograd.anomaly.expected import expect_nonfinite
from retrograd.anomaly.gradient_guard import GradientGuard
from retrograd.anomaly.layer_detector.detector import NaNDetector, watch_for_nans
from retrograd.anomaly.monitor import AnomalyError, AnomalyWarning, Watch, current
from retrograd.anomaly.tracking import scalars
from retrograd.anomaly.training_loop import train_with_nan_guard
from retrograd.anomaly.watching import watch

__all__ = [
    "AnomalyError",
    "AnomalyWarning",
    "GradEvent",
    "GradientGuard",
    "NaNDetector",
    "NaNEvent",
    "Watch",
    "current",
    "diagnose",
    "event_from_json",
    "expect_nonfinite",
    "scalars",
    "train_with_nan_guard",
    "watch",
    "watch_for_nans",
]
