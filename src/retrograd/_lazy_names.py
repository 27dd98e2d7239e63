"""Names of this package that few programs need, which are imported when they are first used.

They are packages and modules, and other names by the module that has them.
"""

from __future__ import annotations

__all__ = ["NAMES", "PACKAGES"]

# fmt: off
PACKAGES = frozenset((
    "accelerator", "amp", "anomaly", "array_api", "backends", "compiler", "cuda", "distributed", "distributions", "fft",
    "func", "functional", "jit", "linalg", "mps", "multiprocessing", "nn", "optim", "optimize", "profiler",
    "return_types", "signal", "sparse", "special", "testing", "types", "utils", "version", "xpu",
))
# fmt: on
NAMES = {
    name: module
    for module, names in {
        "amp": "GradScaler autocast is_autocast_enabled",
        "creation.ranges": "range",
        "cuda": "OutOfMemoryError",
        "creation.signal_windows": "bartlett_window blackman_window hamming_window hann_window kaiser_window",
        "files": "load save",
        "legacy": "detach lu lu_solve norm_except_dim qr svd vander",
        "lowrank": "pca_lowrank svd_lowrank",
        "ops.adaptive_pool": "adaptive_avg_pool1d adaptive_max_pool1d",
        "ops.conv": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
        "ops.distances": "pdist",
        "ops.householder": "geqrf orgqr ormqr",
        "ops.linalg": "det inverse logdet slogdet",
        "ops.linalg_decompositions": "cholesky",
        "ops.linalg_functions": "matrix_exp matrix_power pinverse",
        "ops.linalg_lu": "lu_unpack",
        "ops.linalg_norms": "cdist cosine_similarity pairwise_distance",
        "ops.linalg_triangular": "cholesky_inverse cholesky_solve triangular_solve",
        "ops.pool": "avg_pool1d max_pool1d max_pool2d max_pool3d",
        "ops.special": "digamma erf erfc erfinv i0 igamma igammac lgamma logit mvlgamma polygamma xlogy",
        "ops.quantizing": "fake_quantize_per_channel_affine fake_quantize_per_tensor_affine",
        "ops.segments": "segment_reduce",
        "ops.spectrogram": "istft stft",
        "ops.unfold": "channel_shuffle pixel_shuffle pixel_unshuffle",
        "ops.view_copies": "alias_copy as_strided_copy detach_copy diagonal_copy expand_copy permute_copy select_copy "
        "slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy "
        "unfold_copy unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy",
        "printing": "printoptions set_printoptions",
        "settings": "_assert are_deterministic_algorithms_enabled bfloat16 compile get_deterministic_debug_mode "
        "get_float32_matmul_precision get_num_interop_threads is_deterministic_algorithms_warn_only_enabled "
        "is_warn_always_enabled set_default_tensor_type set_deterministic_debug_mode set_float32_matmul_precision "
        "set_flush_denormal set_num_interop_threads set_warn_always use_deterministic_algorithms",
        "utils.dlpack": "to_dlpack",
        "vectorize": "vmap",
    }.items()
    for name in names.split()
}
