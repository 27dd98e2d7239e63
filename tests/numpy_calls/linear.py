"""Calls of linear algebra, polynomials, convolutions and spectra."""

from __future__ import annotations

import numpy as np

from tests.numpy_calls.arrays import (
    SCALAR,
    SPD,
    SQUARE,
    SQUARES,
    SYMMETRIC,
    TALL,
    UNIT,
    UP,
    ZSQUARE,
    K,
    M,
    N,
    V,
    W,
    X,
    Z,
)
from tests.numpy_calls.call import constant, described, differentiable

# --- products and linear algebra --------------------------------------------------------------------------------------

differentiable("dot inner", V, W)
differentiable("dot", M, V[:4])
differentiable("dot", X, TALL)
differentiable("dot", X, SQUARES[:, :1].repeat(4, 1))
differentiable("dot", M, SCALAR)
differentiable("inner", X, M)
differentiable("vdot", M, M[::-1].copy())
differentiable("vdot", Z, Z[::-1].copy())
differentiable("outer linalg.outer", V, W)
differentiable("outer", M, V)
differentiable("tensordot linalg.tensordot", X, M, axes=2)
differentiable("tensordot", X, X, axes=([0, 2], [0, 2]))
differentiable("kron", M, V[:2])
differentiable("cross linalg.cross", SQUARE, TALL[:3])
differentiable("cross", SQUARE, V[:3], axisa=0)
differentiable("cross linalg.cross", SQUARE, TALL[:3], axis=0)
differentiable("einsum", "ij,kij->ki", M, X)
differentiable("einsum", "ii", SQUARE)
differentiable("einsum", M, [0, 1], V[:4], [1], [0])
differentiable("einsum", "ij,jk,k", M, TALL, V[:3], optimize=True)
described("einsum_path", "ij,jk,k", M, TALL, V[:3])
differentiable("trace", X, 1, 0, 2)
differentiable("trace linalg.trace", SQUARES)
differentiable("linalg.matmul", SQUARES, TALL.T)
differentiable("linalg.vecdot", M, X)
differentiable("linalg.multi_dot", [M, TALL, SQUARE, V[:3]])
differentiable("linalg.inv linalg.det linalg.slogdet", SQUARES)
differentiable("linalg.inv linalg.det linalg.slogdet", ZSQUARE)
differentiable("linalg.solve", SQUARES, TALL[:3])
differentiable("linalg.solve", SQUARE, V[:3])
differentiable("linalg.lstsq", TALL, V[:4], via=lambda f, a, b: f(a, b)[:2])
differentiable("linalg.pinv", TALL)
differentiable("linalg.pinv", SPD, via=lambda f, a: f(a + a.T, hermitian=True))
differentiable("linalg.tensorinv", SQUARE.reshape(3, 3, 1), ind=1)
differentiable("linalg.tensorsolve", SQUARE, V[:3])
differentiable("linalg.matrix_power", SQUARES, 3)
differentiable("linalg.matrix_power", SQUARE, -2)
constant("linalg.matrix_rank", SQUARES)
differentiable("linalg.cholesky", SPD, via=lambda f, a: f((a + a.T) / 2))
differentiable("linalg.cholesky", SPD, via=lambda f, a: f((a + a.T) / 2, upper=True))
differentiable("linalg.qr", TALL)
differentiable("linalg.qr", SQUARE, mode="r")
differentiable("linalg.svd", SQUARES, full_matrices=False)
differentiable("linalg.svd", TALL, compute_uv=False)
differentiable("linalg.svdvals", TALL)
differentiable("linalg.eigh", SYMMETRIC, via=lambda f, a: f((a + a.T) / 2))
differentiable("linalg.eigvalsh", SYMMETRIC, via=lambda f, a: f((a + a.T) / 2, "U"))
for distinct in (ZSQUARE, np.array([[1.0, 0.3], [0.2, 2.0]])):
    differentiable("linalg.eig", distinct, via=lambda f, a: (f(a)[0], np.abs(f(a)[1])))
    differentiable("linalg.eigvals", distinct)
differentiable("linalg.eigvals", np.array([[1.0, 3.0], [-2.0, 2.0]]))
differentiable("linalg.norm", X)
differentiable("linalg.norm", M, 1, axis=1, keepdims=True)
differentiable("linalg.norm", SQUARES, "nuc", axis=(1, 2))
differentiable("linalg.norm", SQUARE, np.inf)
differentiable("linalg.vector_norm", X, axis=(0, 1), ord=3)
differentiable("linalg.matrix_norm", SQUARES)
differentiable("linalg.matrix_norm", SQUARES, ord=2, keepdims=True)
differentiable("linalg.cond", SQUARES)
differentiable("linalg.cond", SQUARE, 1)

# --- polynomials, convolutions, windows, spectra ----------------------------------------------------------------------

differentiable("convolve", V, W[:3])
differentiable("convolve", W[:3], V, mode="same")
differentiable("convolve", V, W[:2], "valid")
differentiable("correlate", V, W[:3])
differentiable("correlate", W[:2], V, "full")
differentiable("correlate", V, W[:2], "same")
differentiable("correlate", W[:3], V)
differentiable("correlate", W[:2], V, "same")
differentiable("correlate", Z[0], np.array([1.0 - 2j, 0.5j]))
differentiable("correlate", np.array([1.0 - 2j, 0.5j]), Z[0], "same")
differentiable("convolve", Z[0], W)
constant("convolve", N[0], K[0])
differentiable("correlate", Z[0], Z[1], "full")
differentiable("poly", V[:3])
differentiable("poly", Z[0])
differentiable("poly", np.array([1.0, 2.0]), via=lambda f, a: f(np.append(a[0] + 1j * a[1], a[0] - 1j * a[1])))
differentiable("poly", SQUARE)
differentiable("polydiv", V, W[:3])
differentiable("polydiv", W[:2], V)
differentiable("polyfit", UP, V, 2)
differentiable("polyfit", UP, TALL[[0, 1, 2, 3, 1]], 1, w=W)
differentiable("roots", V)
differentiable("roots", V, via=lambda f, a: f(np.pad(a, (1, 2))))
differentiable("polyadd polysub polymul", V, W[:3])
differentiable("polyder", V)
differentiable("polyder", V, 2)
differentiable("polyint", V)
differentiable("polyint", V, 2)
differentiable("polyint", V, via=lambda f, p: f(p, 2, p[1:3]))
differentiable("polyint", V, 3, 1.5)
differentiable("polyval", V, UNIT)
differentiable("vander", V)
differentiable("vander", V, 3, increasing=True)
differentiable("lib.stride_tricks.sliding_window_view", X, 2, axis=1)
differentiable("lib.stride_tricks.sliding_window_view", M, (2, 3))
differentiable("fft.fft fft.ifft fft.rfft fft.ihfft fft.hfft fft.irfft", M)
differentiable("fft.fft fft.ifft fft.hfft fft.irfft", Z, 4, axis=0, norm="ortho")
differentiable("fft.fft2 fft.ifft2 fft.rfft2 fft.fftn fft.ifftn fft.rfftn fft.irfft2 fft.irfftn", X)
differentiable("fft.fftn fft.ifftn", X, s=(4, 2), axes=(0, 2), norm="forward")
differentiable("fft.fftshift fft.ifftshift", X)
differentiable("fft.fftshift fft.ifftshift", X, axes=1)
