"""Roots, logarithms and inverses of eigenvalues that are 0, or below 0 by rounding: those of a singular matrix."""

from __future__ import annotations

from retrograd.anomaly.catalogue._expression import LOGS, denominator, first, maker, value
from retrograd.anomaly.catalogue._scene import Finding, Scene, cause

_ROOTS = ("sqrt", "rsqrt", "pow")
_RELATIVE = 1e-4  # of the largest eigenvalue: what rounding in single precision may leave of one that is 0


@cause(None, "eigenvalue of a singular matrix")
def eigenvalue_of_singular_matrix(scene: Scene) -> Finding | None:
    operand = first(scene.birth) if scene.op in (*_ROOTS, *LOGS) else denominator(scene.birth)
    made = maker(operand, "eigh", "eigvalsh")
    known, matrix = value(operand), first(made)
    if made is None or operand is None or known is None or known > 0 or scene.complex:
        return None
    largest = max((abs(each) for each in (matrix.min, matrix.max) if isinstance(each, float)), default=None)
    if known < 0 and largest is not None and -known > _RELATIVE * largest:
        return None  # not by rounding
    site = scene.site(made)
    node, name = site.written.argument(0, "A"), scene.called(matrix, "A")
    spelling = scene.spelling(site)

    def lifted(text: str) -> str:
        size = f"{text}.shape[-1]"
        given = f", dtype={text}.dtype" if scene.double else ""
        return f"{text} + {'1e-3' if scene.half else '1e-5'} * {spelling.call('eye', size + given)}"

    is_name = node is not None and site.line.text(node).isidentifier()
    return Finding(
        f"{scene.at(operand, 0.0)} is an eigenvalue that would be 0 but for rounding: the matrix is singular, as a "
        "covariance is of fewer samples than features, or of features that depend on each other. Add a small number to "
        "its diagonal, small beside its usual entries: all eigenvalues are then above 0. A bound for the eigenvalues "
        "would keep the huge inverse and give them no gradient.",
        site.line.replaced({node: lifted(site.line.text(node))}) if node is not None and is_name else None,
        f"values, vectors = {spelling.tensor_call('linalg.eigh', lifted(name))}",
        made.place,
    )


CAUSES = (eigenvalue_of_singular_matrix,)
