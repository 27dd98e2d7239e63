"""What names stand for: the expressions assigned to them in the lines that led to an operation."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace

from retrograd.anomaly.catalogue._scopes import names_are_kept, names_read
from retrograd.anomaly.catalogue._source_line import Line, Site, Written
from retrograd.anomaly.surroundings import Operation, Place


@dataclass(frozen=True)
class Expression:
    """An expression and where its line stands.

    ``summed`` says whether it is added to others, so that it may be 0; ``reduced`` whether all that is added up may be.
    """

    node: ast.AST
    line: Line
    place: Place | None
    summed: bool = False
    reduced: bool = False

    def at(self, node: ast.AST, *, summed: bool = False, reduced: bool = False) -> Expression:
        return replace(self, node=node, summed=self.summed or summed, reduced=self.reduced or reduced)

    @property
    def text(self) -> str:
        return self.line.text(self.node)

    @property
    def written(self) -> Written:
        """The operation that it is."""
        return self.line.operation_at(self.node)


class Definitions:
    """What names stand for at a site, by the lines of ``operations``, those that led to what is written there."""

    def __init__(self, site: Site, operations: Iterable[Operation]) -> None:
        self._site = site
        self._made: dict[str, list[Expression]] = {}
        lines = set()
        for each in operations:
            if (each.code_line, each.lineno) not in lines:  # whether or not its file is known
                lines.add((each.code_line, each.lineno))
                self._read(each)

    def _read(self, operation: Operation) -> None:
        """Note what the line of an operation assigns; of the site's own what is in front of that."""
        line = Line.parse(operation.code_line)
        for name, node in line.assigned():
            is_other = operation.place != self._site.place
            if is_other or (line is self._site.line and line.comes_before(node, self._site.node)):
                self._made.setdefault(name, []).append(Expression(node, line, operation.place))

    def made(self, name: str) -> list[Expression]:
        """All expressions assigned to a name, whether or not they mean the same at the site."""
        return self._made.get(name, [])

    def of(self, expression: Expression) -> Expression | None:
        """What a name stands for, where that can be written at the site."""
        made = self.made(expression.text)
        if len(made) != 1 or expression.text in expression.line.parameters():
            return None
        found, name = made[0], {expression.text}
        is_kept = self._site.keeps(names_read(found.node), found.line, found.node, found.place)
        is_last = not name & found.line.written_around(found.node)[2] and names_are_kept(
            name, found.place, self._site.place
        )
        return found if is_kept and is_last else None
