"""Data sets, samplers, and the loader that makes batches of them, as in ``torch.utils.data``."""

from retrograd._module_aliases import add_paths
from retrograd.utils.data._workers import WorkerInfo, get_worker_info
from retrograd.utils.data.collate import default_collate, default_convert
from retrograd.utils.data.dataloader import DataLoader
from retrograd.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from retrograd.utils.data.sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

# default_collate was private for long, and programs import it from there
add_paths(__name__, {"distributed": f"{__name__}.sampler", "_utils": __name__})
add_paths(f"{__name__}._utils", {"collate": f"{__name__}.collate"})
