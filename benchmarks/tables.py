"""What the benchmarks print: the machine, tables, and their place in a page of the documentation."""

import ctypes
import datetime
import importlib.metadata
import os
import platform
import statistics
import sys
from pathlib import Path

from libraries import LIBRARIES, SUBJECT


def spread(ratios, digits=2):
    """The median and the quartiles."""
    if not ratios:
        return "-"
    low, middle, high = (f"{value:.{digits}f}" for value in statistics.quantiles(ratios, n=4, method="inclusive"))
    return f"{middle} ({low}-{high})"


def verdict(value, limit, rival="", unit=""):
    label = f"{rival} <= {limit:g} {unit}".strip()
    return f"{label}: {'-' if value is None else 'ok' if value <= limit else 'MISSED'}"


def processor():
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())


def blas_kernel():
    """The processor whose kernels NumPy's OpenBLAS runs, as detected or configured; "" without OpenBLAS."""
    try:
        library = ctypes.CDLL(sys.modules["numpy._core._multiarray_umath"].__file__)
    except (AttributeError, KeyError, OSError):
        return ""
    for name in ("scipy_openblas_get_corename64_", "openblas_get_corename64_", "openblas_get_corename"):
        corename = getattr(library, name, None)
        if corename is not None:
            corename.restype = ctypes.c_char_p
            return corename().decode()
    return ""


def version(distribution):
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "(checkout)" if distribution == SUBJECT else "(not installed)"


def machine():
    versions = ", ".join(f"{library.name} {version(library.name)}" for library in LIBRARIES)
    kernel = blas_kernel()
    if kernel:
        versions += f" with OpenBLAS for {kernel}"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return [
        f"{processor()}, {cores} cores, {platform.system()}; Python {platform.python_version()}, {versions}",
        f"measured on {datetime.date.today().isoformat()}",
    ]


def render(header, rows, markdown):
    """A table whose columns line up, also as Markdown."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    edge, gap = ("| ", " | ") if markdown else ("", "  ")
    lines = [edge + gap.join(map(str.ljust, row, widths)) + edge[::-1] for row in (header, *rows)]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|" if markdown else "-" * len(lines[0].rstrip())
    return [lines[0].rstrip(), rule, *(line.rstrip() for line in lines[1:])]


def write_markdown(path, text, begin, end):
    """Put the block between its markers, replacing the one that is there."""
    block = f"{begin}\n\n{text}\n\n{end}"
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    before, found, rest = old.partition(begin)
    if found:
        _, closed, after = rest.partition(end)
        if not closed:
            raise SystemExit(f"{path}: {begin} without {end}")
        path.write_text(before + block + after, encoding="utf-8")
    else:
        path.write_text((old.rstrip() + "\n\n" if old.strip() else "") + block + "\n", encoding="utf-8")


def publish(table, markdown, begin, end, where=""):
    """Print the machine and a table, of the header and rows; also into a page, between its markers, if there is one."""
    first, *others = machine()
    head = [first + where, *others, ""]
    print("\n".join([*head, *render(*table, False)]))
    if markdown:
        write_markdown(markdown, "\n".join([*head, *render(*table, True)]), begin, end)
