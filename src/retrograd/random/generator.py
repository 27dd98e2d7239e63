"""Sources of random numbers and their states."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from retrograd.core.state import local
from retrograd.core.tensor import Tensor, wrap
from retrograd.device import array_module, as_device
from retrograd.device import device as _device
from retrograd.random.batched import BatchedDraws

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]

_DEFAULT_SEED = 67280421310721  # torch's
_STATE_BYTES = 48


class Generator:
    """A source of random numbers with a state of its own: NumPy's PCG64.

    Several threads may draw from one generator; each number is given out once.

    Parameters
    ----------
    device
        Where its samples will be wanted. Any generator serves every device: numbers are drawn on the CPU and copied to
        a GPU, so that a seed gives the same ones everywhere.

    Examples
    --------
    >>> g = rg.Generator().manual_seed(0)
    >>> rg.rand(2, generator=g).shape
    retrograd.Size([2])
    """

    def __init__(self, device: _device | str | int | None = "cpu") -> None:
        self._device = as_device(device)
        array_module(self._device)  # raises where there is no such device
        self._seed = _DEFAULT_SEED
        self._lock = threading.RLock()
        self._made: np.random.Generator | None = None

    @property
    def _numpy(self) -> np.random.Generator:
        """NumPy's generator, made when it is needed, because numpy.random takes long to import."""
        if self._made is None:
            with self._lock:
                if self._made is None:
                    self._made = np.random.Generator(np.random.PCG64(self._seed))
        return self._made

    @property
    def device(self) -> _device:
        """The device it was made for."""
        return self._device

    def manual_seed(self, seed: int) -> Generator:
        """Start anew from ``seed``, an int of 64 bits (negative ones count from 2**64 down), and return the generator.

        Raises
        ------
        RuntimeError
            If ``seed`` is not an int.
        ValueError
            If it has more than 64 bits.
        """
        if not isinstance(seed, (int, np.integer)):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        if not -(2**63) <= seed < 2**64:
            raise ValueError(f"manual_seed: {seed} does not fit into 64 bits")
        with self._lock:
            self._seed = int(seed) % 2**64
            if self._made is not None:
                _set_state(self._made, np.random.PCG64(self._seed).state)
        return self

    def seed(self) -> int:
        """Start anew from an unpredictable seed of 64 bits, and return it."""
        self.manual_seed(int.from_bytes(os.urandom(8)))
        return self._seed

    def initial_seed(self) -> int:
        """Return the seed it started from last."""
        return self._seed

    def get_state(self) -> Tensor:
        """Return the state as a tensor of bytes, for :meth:`set_state`."""
        return wrap(np.frombuffer(self._to_bytes(), np.uint8).copy())

    def set_state(self, new_state: Tensor) -> Generator:
        """Go back to a state that :meth:`get_state` returned.

        Raises
        ------
        TypeError
            If ``new_state`` is not a tensor of bytes.
        RuntimeError
            If it does not have the length of a state.
        """
        if not isinstance(new_state, Tensor):
            raise TypeError(f"set_state: expected a tensor of dtype uint8, but got {type(new_state).__name__}")
        if new_state._data.dtype != np.uint8:
            raise TypeError(f"set_state: RNG state must be a tensor of dtype uint8, not {new_state.dtype.name}")
        if new_state.numel() != _STATE_BYTES:
            raise RuntimeError(
                f"set_state: Expected a state of size {_STATE_BYTES} but found the input RNG state size to be "
                f"{new_state.numel()}"
            )
        self._from_bytes(new_state.numpy(force=True).tobytes())
        return self

    def clone_state(self) -> Generator:
        """Return a new generator in the state of this one."""
        return _restored(str(self._device), self._to_bytes())

    def on(self, xp: Any) -> Any:
        """What draws the numbers of an array module: NumPy's generator; for a GPU, they are copied there."""
        if xp is np:
            return BatchedDraws(self._numpy) if local.vmaps else self._numpy
        from retrograd.gpu.random import DeviceDraws  # imported late: few have a GPU

        return DeviceDraws(self._numpy, xp.asarray)

    def _to_bytes(self) -> bytes:
        """State and increment of PCG64, the half of a 64-bit number kept for the next 32 bits, and the seed."""
        bits = self._numpy.bit_generator
        with bits.lock:
            state: Any = bits.state
        numbers = (
            (state["state"]["state"], 16),
            (state["state"]["inc"], 16),
            (state["uinteger"], 4),
            (state["has_uint32"], 4),
            (self._seed, 8),
        )
        return b"".join(int(number).to_bytes(length, "little") for number, length in numbers)

    def _from_bytes(self, data: bytes) -> None:
        places = ((0, 16), (16, 32), (32, 36), (36, 40), (40, 48))
        state, increment, half, has_half, seed = (int.from_bytes(data[a:b], "little") for a, b in places)
        made = self._numpy
        with self._lock:
            self._seed = seed
            _set_state(
                made,
                {
                    "bit_generator": "PCG64",
                    "state": {"state": state, "inc": increment},
                    "uinteger": half,
                    "has_uint32": has_half,
                },
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (str(self._device), self._to_bytes())


def _set_state(generator: np.random.Generator, state: Any) -> None:
    """Set the state of NumPy's generator while no thread draws from it."""
    bits: Any = generator.bit_generator
    with bits.lock:
        bits.state = state


def _restored(device: str, state: bytes) -> Generator:
    """A generator in a given state, as pickle and copy make it."""
    generator = Generator(device)
    generator._from_bytes(state)
    return generator


default_generator: Generator = Generator()
default_generator.seed()


def _after_fork() -> None:
    """A forked child has none of the threads that may have held a lock while drawing."""
    locks: list[Any] = [default_generator._lock]
    if default_generator._made is not None:
        locks.append(default_generator._made.bit_generator.lock)
    for lock in locks:
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def generator_of(name: str, generator: Generator | None) -> Generator:
    """The argument ``generator``, or the default generator."""
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        raise TypeError(f"{name}(): argument 'generator' must be retrograd.Generator, not {type(generator).__name__}")
    return generator


def manual_seed(seed: Any) -> Generator:
    """Let the default generator start anew from ``seed``, and return it.

    Examples
    --------
    >>> _ = rg.manual_seed(0)
    >>> a = rg.rand(3)
    >>> _ = rg.manual_seed(0)
    >>> bool((a == rg.rand(3)).all())
    True
    """
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Let the default generator start anew from an unpredictable seed, and return it."""
    return default_generator.seed()


def initial_seed() -> int:
    """Return the seed from which the default generator started last."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return the state of the default generator as a tensor of bytes."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Let the default generator go back to a state that :func:`get_rng_state` returned."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str | None = None) -> Iterator[None]:
    """Within the block, draw from the default generator without lasting effect: its state is restored at the end.

    ``devices`` and ``device_type`` are accepted because torch has them; the one state here covers all devices.
    """
    state = default_generator._to_bytes()
    try:
        yield
    finally:
        if enabled:
            default_generator._from_bytes(state)
