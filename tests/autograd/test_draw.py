"""Pictures of graphs: what they contain, how it is laid out, and that it is legible."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as rg
from retrograd.autograd.graph import Picture, draw

SVG = "{http://www.w3.org/2000/svg}"
DEJAVU = 0.602  # width of a character of DejaVu Sans Mono, relative to the font size


# --- graphs -----------------------------------------------------------------------------------------------------------


def chain(length: int, names: tuple[str, ...] = ("sin",)) -> Any:
    x = rg.ones(3, 4, requires_grad=True)
    for k in range(length):
        x = getattr(x, names[k % len(names)])()
    return x


def diamond() -> Any:
    x = rg.ones(3, 4, requires_grad=True)
    a = x.sin()
    b, c = a.exp() * a, a.cos()
    return ((b + c) * (b + c)).mean()


def mlp() -> tuple[Any, dict[str, Any]]:
    names = {}
    h = rg.ones(8, 6)
    for k, (inputs, outputs) in enumerate([(6, 5), (5, 4)]):
        names[f"layers.{k}.weight"] = rg.ones(outputs, inputs, requires_grad=True)
        names[f"layers.{k}.bias"] = rg.ones(outputs, requires_grad=True)
        h = (h @ names[f"layers.{k}.weight"].t() + names[f"layers.{k}.bias"]).relu()
    return h.sum(), names


def recurrent(steps: int) -> Any:
    w, u = rg.ones(4, 4, requires_grad=True), rg.ones(3, 4, requires_grad=True)
    h = rg.zeros(2, 4)
    for _ in range(steps):
        h = (rg.ones(2, 3) @ u + h @ w).tanh()
    return h.sum()


def tangled(choices: list[tuple[int, int, int]]) -> Any:
    """Return a tensor whose graph uses, in every operation, some of the six latest tensors."""
    tensors = [rg.ones(2, 3, requires_grad=True) for _ in range(3)]
    operations: list[Callable[[Any, Any], Any]] = [
        lambda a, b: a * b,
        lambda a, b: a + b,
        lambda a, b: a.sin(),
        lambda a, b: rg.maximum(a, b),
        lambda a, b: rg.cat([a, b])[:2],
        lambda a, b: (a - b).unbind(0)[0] + b,
    ]
    for operation, first, second in choices:
        recent = tensors[-6:]
        tensors.append(operations[operation](recent[first % len(recent)], recent[second % len(recent)]))
    return tensors[-1].sum() + tensors[-2].sum()


CHOICES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=40)


def nodes_behind(tensor: Any) -> list[Any]:
    found, stack = {tensor.grad_fn}, [tensor.grad_fn]
    while stack:
        for node, _ in stack.pop().next_functions:
            if node is not None and node not in found:
                found.add(node)
                stack.append(node)
    return list(found)


# --- reading an SVG ---------------------------------------------------------------------------------------------------


class Parsed:
    """The boxes and edges of an SVG."""

    def __init__(self, picture: Picture) -> None:
        self.root = ElementTree.fromstring(picture.svg)
        assert self.root.tag == f"{SVG}svg"
        self.boxes: dict[str, tuple[float, float, float, float]] = {}
        self.texts: dict[str, list[tuple[str, float]]] = {}
        self.kinds: dict[str, list[str]] = {}
        for group in self.root.iter(f"{SVG}g"):
            (rect,) = group.findall(f"{SVG}rect")
            x, y, width, height = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
            name = group.attrib["id"]
            assert name not in self.boxes
            self.boxes[name] = (x, y, x + width, y + height)
            self.kinds[name] = group.attrib["class"].split()
            self.texts[name] = [
                (str(text.text), float(text.attrib["font-size"])) for text in group.findall(f"{SVG}text")
            ]
        paths = [path for path in self.root.iter(f"{SVG}path") if path.attrib["class"] == "edge"]
        self.edges = [(path.attrib["data-from"], path.attrib["data-to"], path.attrib["d"]) for path in paths]

    def titles(self) -> Counter[str]:
        return Counter(texts[0][0] for texts in self.texts.values())

    def named(self, title: str) -> str:
        (name,) = [name for name, texts in self.texts.items() if texts[0][0] == title]
        return name


def points_on(path: str) -> Iterator[tuple[float, float]]:
    """Points along a path of M, L and C commands."""
    x, y = 0.0, 0.0
    for command, arguments in re.findall(r"([MLC])([^MLC]*)", path):
        numbers = [float(number) for number in arguments.split()]
        if command != "C":
            x1, y1 = numbers
            steps = 1 if command == "M" else 20
            for k in range(1, steps + 1):
                yield (x1, y1) if command == "M" else (x + (x1 - x) * k / steps, y + (y1 - y) * k / steps)
        else:
            ax, ay, bx, by, x1, y1 = numbers
            for k in range(1, 21):
                t = k / 20
                weights = (1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3
                yield (
                    sum(w * p for w, p in zip(weights, (x, ax, bx, x1), strict=True)),
                    sum(w * p for w, p in zip(weights, (y, ay, by, y1), strict=True)),
                )
        x, y = x1, y1


def check_layout(picture: Picture) -> Parsed:
    """Check that all is on the page, boxes do not overlap, text fits, and edges run from box to box around others."""
    parsed = Parsed(picture)
    page_width, page_height = (float(number) for number in parsed.root.attrib["viewBox"].split()[2:])
    boxes = sorted(parsed.boxes.values())
    for x0, y0, x1, y1 in boxes:
        assert 0 <= x0 < x1 <= page_width
        assert 0 <= y0 < y1 <= page_height
    for k, (_, y0, x1, y1) in enumerate(boxes):
        for other in boxes[k + 1 :]:
            assert other[0] >= x1 or other[1] >= y1 or other[3] <= y0, "two boxes overlap"
    for name, texts in parsed.texts.items():
        x0, y0, x1, y1 = parsed.boxes[name]
        assert max(len(text) * size * DEJAVU for text, size in texts) < x1 - x0
        assert sum(size for _, size in texts) < y1 - y0
    passed: dict[str, list[tuple[float, float]]] = {}
    for source, target, path in parsed.edges:
        points = list(points_on(path))
        x0, _, x1, y1 = parsed.boxes[source]
        x, y = points[0]
        # an edge starts at its box, or branches off another edge that does
        assert (x0 < x < x1 and abs(y - y1) < 0.11) or any(abs(x - a) + abs(y - b) < 0.3 for a, b in passed[source])
        passed.setdefault(source, []).extend(points)
        x0, y0, x1, _ = parsed.boxes[target]
        assert x0 < points[-1][0] < x1
        assert points[-1][1] == pytest.approx(y0, abs=0.11)
        for name, (left, top, right, bottom) in parsed.boxes.items():
            if name not in (source, target):
                assert not any(left + 1 < x < right - 1 and top + 1 < y < bottom - 1 for x, y in points), (
                    "an edge runs through a box"
                )
    return parsed


def check_content(picture: Picture, tensor: Any) -> None:
    """Check that every node is drawn once, and every edge as often as the graph has it."""
    nodes = nodes_behind(tensor)
    assert len(Parsed(picture).boxes) == len(nodes)
    tooltips: list[str] = []
    for group in Parsed(picture).root.iter(f"{SVG}g"):
        (title,) = group.findall(f"{SVG}title")
        tooltips.append(str(title.text).splitlines()[0])
    assert Counter(tooltips) == Counter(node.name() for node in nodes)
    drawn = Counter((tooltips[int(a[1:])], tooltips[int(b[1:])]) for a, b, _ in Parsed(picture).edges)
    there = Counter(
        (parent.name(), node.name()) for node in nodes for parent, _ in node.next_functions if parent is not None
    )
    assert drawn == there


# --- tests ------------------------------------------------------------------------------------------------------------


GRAPHS: dict[str, Callable[[], Any]] = {
    "leaf": lambda: rg.ones(2, requires_grad=True).sum(),
    "chain": lambda: chain(10),
    "diamond": diamond,
    "mlp": lambda: mlp()[0],
    "recurrent": lambda: recurrent(12),
    "long chain": lambda: chain(299, ("sin", "exp", "cos")),
    "long recurrent": lambda: recurrent(72),
    "many leaves": lambda: rg.cat([rg.ones(2, requires_grad=True) for _ in range(40)]).sum(),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_pictures_of_typical_graphs(name: str) -> None:
    tensor = GRAPHS[name]()
    picture = draw(tensor)
    check_layout(picture)
    check_content(picture, tensor)


@settings(deadline=None, max_examples=40)
@given(CHOICES)
def test_pictures_of_random_graphs(choices: list[tuple[int, int, int]]) -> None:
    tensor = tangled(choices)
    picture = draw(tensor)
    check_layout(picture)
    check_content(picture, tensor)


def test_picture_shows_operations_shapes_leaves_and_saved_tensors() -> None:
    loss, names = mlp()
    parsed = Parsed(draw({"loss": loss}, names=names))
    assert parsed.titles() == Counter([*names, "t", "matmul", "add", "relu", "t", "matmul", "add", "relu", "sum"])
    weight, last = parsed.named("layers.1.weight"), parsed.named("sum")
    assert parsed.texts[weight] == [("layers.1.weight", 13.0), ("float32 [4, 5]", 11.0)]
    assert parsed.texts[last][1][0] == "loss: float32 []"
    assert "leaf" in parsed.kinds[weight]
    assert [name for name, kinds in parsed.kinds.items() if "result" in kinds] == [last]
    lines = {line for texts in parsed.texts.values() for line, _ in texts}
    assert {"saves input [8, 6]", "saves result"} <= lines
    plain = {line for texts in Parsed(draw(loss, show_saved=False)).texts.values() for line, _ in texts}
    assert not any("saves" in line for line in plain)


def test_saved_leaves_are_shown_by_name() -> None:
    x, w = rg.ones(3, requires_grad=True), rg.ones(3, requires_grad=True)
    parsed = Parsed(draw(x * w, names={"x": x, "w": w}))
    assert parsed.texts[parsed.named("mul")][-1][0] == "saves input = x, other = w"


def test_long_list_of_saved_tensors_is_cut_with_a_count_of_the_rest() -> None:
    layer = rg.nn.LSTM(4, 8)
    out, _ = layer(rg.randn(5, 2, 4))
    picture = draw(out, names=layer)
    (whole,) = [line for line in str(picture).splitlines() if " lstm(" in line]
    *shown, rest = [line for line, size in Parsed(picture).texts["n4"] if size == 10.0]
    (count,) = re.findall(r"^and (\d+) more$", rest)
    assert " ".join(shown).count("tensors ") + int(count) == whole.count("tensors ")


def test_saved_tensors_of_equal_shape_are_counted() -> None:
    query = rg.ones(1, 2, 4, 8, requires_grad=True)
    out = rg.nn.functional.scaled_dot_product_attention(query * 2, query * 3, query * 4)
    assert "saves tensors [1, 2, 4, 8] \N{MULTIPLICATION SIGN}3, result" in str(draw(out))


def test_wide_picture_keeps_a_legible_minimum_width() -> None:
    svg = draw(rg.stack([rg.ones(2, requires_grad=True) for _ in range(40)]).sum()).svg
    found = re.search(r' width="(\d+)" height="\d+" style="max-width:100%;min-width:(\d+)px;', svg)
    assert found is not None
    assert int(found[2]) >= 0.6 * int(found[1]) - 1 > 1000


def test_picture_says_which_saved_tensors_are_freed_or_packed() -> None:
    x = rg.ones(3, requires_grad=True)
    y = x.exp().sum()
    y.backward()
    assert "saved tensors freed" in draw(y).svg
    with rg.autograd.graph.saved_tensors_hooks(lambda t: "elsewhere", lambda packed: rg.ones(3)):
        z = x.sin()
    assert "saves input (packed)" in draw(z).svg


def test_picture_shows_what_a_custom_function_saved() -> None:
    class Twice(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = rg.ones(3, requires_grad=True)
    picture = draw(Twice.apply(x))
    assert str(picture).splitlines()[1].split() == ["n1", "=", "Twice(n0)", "float32", "[3]", "saves", "saved", "[3]"]
    assert Parsed(picture).titles() == Counter(["leaf", "Twice"])


def test_picture_lists_the_outputs_of_an_operation() -> None:
    x = rg.ones(7, 3, requires_grad=True)
    values, _ = x.max(0)
    parsed = Parsed(draw([values.sum(), x.unbind(0)[1]]))
    assert [line for line, _ in parsed.texts[parsed.named("max")]][1:3] == ["float32 [3]", "int64 [3]"]
    assert [line for line, _ in parsed.texts[parsed.named("unbind")]][1:4] == [
        "float32 [3]",
        "float32 [3]",
        "… 5 more outputs",
    ]


def test_names_come_from_a_module_or_from_the_tensors() -> None:
    class Module:
        weight = rg.ones(3, requires_grad=True)

        def named_parameters(self) -> Any:
            yield "weight", self.weight

    named = rg.ones(3, requires_grad=True)
    named.name = "called so"
    other = rg.ones(3, requires_grad=True)
    module = Module()
    titles = Parsed(draw((module.weight * named + other).sum(), names=module)).titles()
    assert titles == Counter(["weight", "called so", "leaf", "mul", "add", "sum"])


def test_intermediate_tensor_of_an_edge_is_shown_by_name() -> None:
    x = rg.ones(3, requires_grad=True)
    h = x.exp()
    picture = draw(rg.autograd.graph.get_gradient_edge(h.sum()), names={"h": h, "constant": rg.ones(1)})
    assert "h: float32 [3]" in picture.svg


@pytest.mark.parametrize("name", ["<b>&\"'x]]>", "a" * 300, "重み", "back\\slash", "two\nlines", "# heading"])
def test_strange_names_are_escaped_or_shortened(name: str) -> None:
    x = rg.ones(2, requires_grad=True)
    picture = draw(x.exp(), names={name: x})
    check_layout(picture)
    check_dot(picture.dot)
    check_mermaid(picture.mermaid)
    if len(name) < 20:
        assert name.split("\n")[0] in "".join(Parsed(picture).titles())
    else:
        assert any("…" in title and len(title) < 60 for title in Parsed(picture).titles())


def test_box_is_wide_enough_for_wide_characters() -> None:
    x = rg.ones(2, requires_grad=True)
    parsed = Parsed(draw(x.exp(), names={"重" * 20: x}))
    x0, _, x1, _ = parsed.boxes[parsed.named("重" * 20)]
    assert x1 - x0 > 20 * 2 * 13 * DEJAVU


# --- large graphs -----------------------------------------------------------------------------------------------------


LARGE: dict[str, Callable[[], Any]] = {
    "repetition": lambda: chain(5000),
    "repetition of a few": lambda: chain(5000, ("sin", "exp", "cos", "tanh", "sin")),
    "no repetition": lambda: chain_without_repetition(3000),
    "recurrent": lambda: recurrent(1000),
    "leaves at every step": lambda: leaves_at_every_step(1000),
    "stack": lambda: rg.stack([rg.ones(2, requires_grad=True) * 2 for _ in range(2000)]).sum(),
    "leaves only": lambda: rg.cat([rg.ones(2, requires_grad=True) for _ in range(2000)]).sum(),
    "leaves used twice": lambda: leaves_used_twice(1000),
    "tangled": lambda: tangled([(k * k % 5, k * 7 % 6, k * k * k % 6) for k in range(2000)]),
}


def chain_without_repetition(length: int) -> Any:
    state = 1
    x = rg.ones(2, requires_grad=True)
    for _ in range(length):
        state = (state * 1103515245 + 12345) % 2**31
        x = getattr(x, ("sin", "exp", "cos", "tanh", "sigmoid", "abs")[(state >> 16) % 6])()
    return x


def leaves_at_every_step(steps: int) -> Any:
    h = rg.ones(2, requires_grad=True)
    for _ in range(steps):
        h = (h * rg.ones(2, requires_grad=True) + rg.ones(2, requires_grad=True)).tanh()
    return h.sum()


def leaves_used_twice(count: int) -> Any:
    leaves = [rg.ones(2, requires_grad=True) for _ in range(count)]
    h = rg.ones(2, requires_grad=True)
    for x in leaves + leaves:
        h = h.sin() * x
    return h


@pytest.mark.parametrize("name", LARGE)
def test_large_graphs_are_condensed(name: str) -> None:
    tensor = LARGE[name]()
    nodes = nodes_behind(tensor)
    picture = draw(tensor)
    parsed = check_layout(picture)
    assert len(parsed.boxes) <= 160
    assert len(picture.svg) < 150_000
    leaves = sum(node.name() == "AccumulateGrad" for node in nodes)
    assert picture._diagram.caption().startswith(f"{len(nodes) - leaves:,} operations · {leaves:,} lea")
    stands_for = 0
    for texts in parsed.texts.values():
        found = re.fullmatch(r"… ([\d,]+) (operations|leaves)", texts[0][0])
        stands_for += int(found[1].replace(",", "")) if found else 1
        with_leaves = [re.fullmatch(r"with ([\d,]+) lea(f|ves)", line) for line, _ in texts]
        stands_for += sum(int(match[1].replace(",", "")) for match in with_leaves if match)
    assert stands_for == len(nodes)
    assert all(int(a[1:]) < int(b[1:]) for a, b, _ in parsed.edges), "the drawn graph has a cycle"
    first = next(texts[0][0] for texts in parsed.texts.values())
    assert "operations" not in first


def test_repeated_groups_are_labelled_with_their_count() -> None:
    lines = str(draw(recurrent(1000)))
    assert "998 \N{MULTIPLICATION SIGN} (matmul, matmul, add, tanh)" in lines
    assert len(lines.splitlines()) < 20


def test_edges_into_a_repetition_lead_to_its_group() -> None:
    w = rg.ones(2, requires_grad=True)
    h = rg.ones(2)
    for _ in range(1000):
        h = (h * w).sin()
    parsed = Parsed(draw(h, names={"w": w}))
    (group,) = [name for name, kinds in parsed.kinds.items() if "group" in kinds]
    into = [source for source, target, _ in parsed.edges if target == group]
    out = [target for source, target, _ in parsed.edges if source == group]
    assert sorted(parsed.texts[name][0][0] for name in into) == ["sin", "w"]
    assert [parsed.texts[name][0][0] for name in out] == ["mul"]


def test_max_nodes() -> None:
    assert len(Parsed(draw(chain(50))).boxes) == 51
    assert len(Parsed(draw(chain(50), max_nodes=20)).boxes) < 20
    assert len(Parsed(draw(chain(500), max_nodes=1000)).boxes) == 501


# --- text -------------------------------------------------------------------------------------------------------------


def check_dot(dot: str) -> None:
    """Check that the text is valid DOT whose edges connect declared nodes."""
    string = r'"(?:[^"\\\n]|\\.)*"'
    attributes = rf"(?:\w+=(?:\w+|{string})(?:, )?)+"
    lines = dot.splitlines()
    assert re.fullmatch(r"digraph \w+ \{", lines[0])
    assert lines[-1] == "}"
    declared = set()
    for line in lines[1:-1]:
        edge = re.fullmatch(r"  (n\d+) -> (n\d+);", line)
        if edge:
            assert {edge[1], edge[2]} <= declared
            continue
        node = re.fullmatch(rf"  (node|n\d+) \[{attributes}\];", line)
        assert node, line
        declared.add(node[1])


def check_mermaid(mermaid: str) -> None:
    lines = mermaid.splitlines()
    assert lines[0] == "flowchart TD"
    for line in lines[1:]:
        assert re.fullmatch(r'  (n\d+(\(\[|\[)"[^"]*"(\]\)|\]):::\w+|n\d+ --> n\d+|classDef \w+ [\w#:,. -]+)', line), (
            line
        )


def test_dot_and_mermaid_have_the_same_nodes_and_edges() -> None:
    loss, names = mlp()
    picture = draw(loss, names=names)
    check_dot(picture.dot)
    check_mermaid(picture.mermaid)
    edges = [(a, b) for a, b, _ in Parsed(picture).edges]
    assert re.findall(r"(n\d+) -> (n\d+);", picture.dot) == edges
    assert re.findall(r"(n\d+) --> (n\d+)", picture.mermaid) == edges
    for name in names:
        assert f'label="{name}\\n' in picture.dot
        assert f'(["{name}<br/>' in picture.mermaid


def test_text_list_names_the_inputs() -> None:
    x, y = rg.ones(2, requires_grad=True), rg.ones(2, requires_grad=True)
    lines = str(draw(x - y * x, names={"x": x, "y": y})).splitlines()
    assert [line.split("  ")[0].strip() for line in lines[:-1]] == [
        "n0 = x",
        "n1 = y",
        "n2 = mul(n1, n0)",
        "n3 = sub(n0, n2)",
    ]
    assert lines[-1] == "2 operations · 2 leaves"  # only leaves are saved, and those are listed anyway


def test_pictures_in_notebooks_and_in_files(tmp_path: Path) -> None:
    picture = draw(diamond())
    assert picture._repr_svg_() == picture.svg
    assert repr(picture).startswith("<Picture: 8 operations · 1 leaf")
    for suffix, text in ((".svg", picture.svg), (".dot", picture.dot), (".mmd", picture.mermaid)):
        picture.save(tmp_path / f"graph{suffix}")
        assert (tmp_path / f"graph{suffix}").read_text(encoding="utf-8") == text
    with pytest.raises(ValueError, match=r"must end in one of \.svg, \.dot, .* but is 'graph\.png'"):
        picture.save(tmp_path / "graph.png")


def test_draw_refuses_what_has_no_graph() -> None:
    with pytest.raises(RuntimeError, match=r"shape \[2\] does not require grad"):
        draw(rg.ones(2))
    with pytest.raises(TypeError, match="expected tensors or gradient edges, but got float"):
        draw(3.0)
    with pytest.raises(TypeError, match="got none"):
        draw([])
    with pytest.raises(TypeError, match="names must map names"):
        draw(diamond(), names=["x"])


def test_drawing_leaves_the_graph_unchanged() -> None:
    x = rg.ones(2, requires_grad=True)
    y = x.exp().sum()
    svg = draw(y).svg
    assert draw(y).svg == svg
    y.backward()
    assert x.grad.tolist() == pytest.approx([2.718282] * 2)
