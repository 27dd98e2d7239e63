"""Keep what backward needs on disk instead of in memory.

An operation saves tensors for backward, and those of a long computation can be more than memory holds. Here a pair of
hooks writes every large one to a file when it is saved, and reads it back when backward wants it. The file goes when
the graph does.

    python examples/save_on_disk.py
    python examples/save_on_disk.py --size 2000000 --layers 20
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tracemalloc
import uuid
from pathlib import Path
from typing import Any

import numpy as np

import retrograd as rg


class StoredTensor:
    """A tensor in a file, which is deleted together with this object."""

    def __init__(self, tensor: rg.Tensor, folder: Path) -> None:
        self.path = folder / f"{uuid.uuid4()}.npy"
        np.save(self.path, tensor.numpy(force=True))

    def load(self) -> rg.Tensor:
        return rg.from_numpy(np.load(self.path))

    def __del__(self) -> None:
        self.path.unlink(missing_ok=True)


class save_on_disk(rg.autograd.graph.saved_tensors_hooks):  # noqa: N801 (as the contexts it belongs to)
    """Inside this block, tensors of at least ``threshold`` bytes are saved for backward in files in ``folder``.

    Leaves stay where they are: the program holds them anyway.
    """

    def __init__(self, folder: Path, threshold: int = 100_000) -> None:
        def pack(tensor: rg.Tensor) -> Any:
            small = tensor.nbytes < threshold
            return tensor if small or (tensor.is_leaf and tensor.requires_grad) else StoredTensor(tensor, folder)

        def unpack(packed: Any) -> rg.Tensor:
            return packed.load() if isinstance(packed, StoredTensor) else packed

        super().__init__(pack, unpack)


def step(x: rg.Tensor, layers: int) -> rg.Tensor:
    """A computation that saves one large tensor per layer."""
    for _ in range(layers):
        x = (x * 1.01).tanh()
    return x.square().mean()


def measured(x: rg.Tensor, layers: int, folder: Path | None) -> tuple[rg.Tensor, int, int]:
    """Gradient, bytes held in memory before backward, and number of files then."""
    tracemalloc.start()
    if folder is None:
        loss = step(x, layers)
    else:
        with save_on_disk(folder):
            loss = step(x, layers)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    files = 0 if folder is None else len(list(folder.iterdir()))
    (gradient,) = rg.autograd.grad(loss, x)
    return gradient, held, files


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Keep what backward needs in files instead of in memory.")
    parser.add_argument("--size", type=int, default=500_000, help="elements of each tensor")
    parser.add_argument("--layers", type=int, default=10)
    args = parser.parse_args(argv)

    rg.manual_seed(0)
    x = rg.randn(args.size).requires_grad_()
    expected, in_memory, _ = measured(x, args.layers, None)
    with tempfile.TemporaryDirectory() as folder:
        gradient, on_disk, files = measured(x, args.layers, Path(folder))
        left = len(list(Path(folder).iterdir()))
    print(f"saved in memory: {in_memory / 1e6:6.1f} MB held before backward")
    print(f"saved on disk:   {on_disk / 1e6:6.1f} MB held before backward, {files} files")
    print(f"files left after backward: {left}")
    print(f"gradients equal: {gradient.equal(expected)}")
    return 0 if gradient.equal(expected) and left == 0 and on_disk < in_memory / 2 else 1


if __name__ == "__main__":
    sys.exit(main())
