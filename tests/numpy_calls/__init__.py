"""One or more calls of every overridable NumPy function: the table behind ``test_numpy_protocol``."""

from tests.numpy_calls import elementwise, linear, making, rearranging, reductions
from tests.numpy_calls.call import CALLS, Call, Fixed

__all__ = ["CALLS", "Call", "Fixed", "elementwise", "linear", "making", "rearranging", "reductions"]
