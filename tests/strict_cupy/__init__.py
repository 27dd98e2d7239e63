"""A stand-in for CuPy 14.2 that computes with NumPy and is as strict as CuPy.

What CuPy's wheel shows without a GPU is kept beside this file as data (``cupy_14_2_0.json``): which of NumPy's
functions there are and with which parameters, the dtypes of every ufunc and which of its methods exist. Everything else
raises here as it does there: NumPy's arrays among the operands, implicit conversion to NumPy, unknown keywords, arrays
of another device than the current one. As in CuPy, indices out of bounds wrap around, nothing raises floating-point
flags, singular matrices go unnoticed unless ``cupyx.errstate`` asks for it, and reductions of everything stay arrays.
"""

from tests.strict_cupy.kernels import ElementwiseKernel
from tests.strict_cupy.modules import installed

__all__ = ["ElementwiseKernel", "installed"]
