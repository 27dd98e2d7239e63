"""torch's import paths: ``from retrograd.distributions.normal import Normal`` works, though families share files.

Python looks for a module among those it has imported before it looks for a file. So a package that has been imported
may answer for modules inside it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

__all__ = ["add_paths"]


def add_paths(package: str, homes: Mapping[str, str]) -> None:
    """Let modules be imported from, and be attributes of, a package under further names.

    Parameters
    ----------
    package
        The name of the package, which is being imported.
    homes
        For each name the module that has what torch has there; it has been imported.
    """
    for name, home in homes.items():
        sys.modules[f"{package}.{name}"] = module = sys.modules[home]
        setattr(sys.modules[package], name, module)
