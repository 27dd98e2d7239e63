"""Further names of parameters: NumPy's, and those by which torch's overloads differ."""

from __future__ import annotations

from collections.abc import Sequence

# names of the operands, which are rarely used in calls
OF_OPERANDS = frozenset(("input", "self", "x1", "x2"))

_SYNONYMS = (
    ("self", "input"),
    ("x1", "input"),
    ("x2", "other"),
    ("axis", "dim"),
    ("keepdims", "keepdim"),
    ("axes", "dims"),
    ("element", "elements"),
    ("test_element", "test_elements"),
    ("from", "from_"),  # a keyword of Python
    ("sections", "indices_or_sections"),
    ("indices", "indices_or_sections"),
    ("tensor_indices_or_sections", "indices_or_sections"),
    ("input2", "L"),
    ("input2", "tau"),
)


def synonyms(params: Sequence[str], first: str | None) -> dict[str, str]:
    """The further names under which a function takes its parameters.

    Parameters
    ----------
    params
        Its parameters.
    first
        The one of them that comes first by position; torch's functions take it as ``input``, whatever its name here.
    """
    meant = {theirs: ours for theirs, ours in _SYNONYMS if ours in params and theirs not in params}
    if first is not None and "input" not in params and "self" not in params:
        meant |= {"input": first, "self": first}
    return meant
