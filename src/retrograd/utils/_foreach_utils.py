"""Lists of tensors in groups of one device and dtype, as copies of torch's optimizers make them."""

from __future__ import annotations

from typing import Any

from retrograd.device import device as Device
from retrograd.dtypes import dtype as DType

Groups = dict[tuple[Device, DType], tuple[list[list[Any]], list[int]]]


def _group_tensors_by_device_and_dtype(tensorlistlist: list[list[Any]], with_indices: bool = False) -> Groups:
    """Return the lists in parts, by the device and the dtype of the tensors in the first list.

    Parameters
    ----------
    tensorlistlist
        Lists of one length, such as parameters, gradients and averages; all but the first may hold None.
    with_indices
        Whether to tell the positions that the tensors had, after the lists.
    """
    groups: Groups = {}
    for position, items in enumerate(zip(*tensorlistlist, strict=False)):
        lists, positions = groups.setdefault((items[0].device, items[0].dtype), ([[] for _ in tensorlistlist], []))
        for part, item in zip(lists, items, strict=True):
            part.append(item)
        if with_indices:
            positions.append(position)
    return groups


def _get_foreach_kernels_supported_devices() -> list[str]:
    """The devices on which lists of tensors are faster than loops: none."""
    return []


def _get_fused_kernels_supported_devices() -> list[str]:
    """The devices on which a step can be one kernel: none."""
    return []


def _device_has_foreach_support(device: Device) -> bool:
    return False


def _has_foreach_support(tensors: list[Any], device: Device) -> bool:
    return False
