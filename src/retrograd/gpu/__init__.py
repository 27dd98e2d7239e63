"""Arrays on a GPU: what NumPy's functions, and with them every operation and rule, do there.

This package knows nothing of tensors. :class:`~retrograd.gpu.array.DeviceArray` is one more array type behind NumPy's
dispatch (NEP 13 and NEP 18): it holds an array of CuPy's and passes every call to CuPy, in terms that CuPy knows.
Operations and rules stay plain NumPy. The arrays that they create themselves (an ``np.arange`` to compare with, an
``np.eye``) are brought beside their operands when they meet.
"""

from retrograd.gpu.array import DeviceArray, as_strided
from retrograd.gpu.fallback import computed_on_cpu
from retrograd.gpu.indexing import put_within, take_within

__all__ = ["DeviceArray", "as_strided", "computed_on_cpu", "put_within", "take_within"]
