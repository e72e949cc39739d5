"""The base of benches: options, measurement, tables and pictures.

A module of this package registers a bench with `@BENCHES.register(name)`; `longwave bench name` then runs it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from longwave.bench.measure import is_gpu, machine, machine_line
from longwave.core.registry import Registry
from longwave.core.text_table import TextTable
from longwave.pictures.curves import COLOURS, Curve, Panel, draw_panels
from longwave.pictures.style import check_path
from longwave.train.device import find_device

Result = dict[str, Any]
Points = list[tuple[float, float]]
Progress = Callable[[str], None]
ON_A_GPU = "on the GPU: times are between events, after three runs to warm up; memory is the peak of torch's tensors"


@dataclass(frozen=True)
class Bench(ABC):
    """A measurement: the fields are the options of its command, the docstring of the subclass is the help."""

    quick: bool = False
    """Smaller sizes and fewer repeats: a rough result in under a minute."""
    json: bool = False
    """Print the figures as JSON instead of tables."""
    device: str = "cpu"
    """Where to compute: cpu, cuda, cuda:1 ..., or auto."""

    cpu_only: ClassVar[str] = ""  # why no other device can be measured
    duration: ClassVar[str] = ""  # of a full run, where it takes minutes
    caption: ClassVar[str] = ""  # how the figures are measured

    def check(self) -> None:
        """Refuse options that cannot be met, before anything is measured."""
        if self.cpu_only and self.device not in ("cpu", "auto"):
            raise ValueError(f"device: expected cpu, because {self.cpu_only}, got {self.device!r}")
        find_device(self.device)

    @property
    def where(self) -> str:
        """The name of the device, for functions that run in a process of their own."""
        return "cpu" if self.cpu_only else str(find_device(self.device))

    @abstractmethod
    def measure(self, progress: Progress) -> Result:
        """Return figures that JSON can hold; `progress` is called with what is measured next."""

    @abstractmethod
    def tables(self, result: Result) -> list[TextTable]:
        """The figures as tables."""

    def run(self, progress: Progress) -> Result:
        """Measure; the figures, with the name of the bench, its caption and the machine."""
        frame = {"bench": BENCHES.name_of(type(self)), "machine": machine(self.where)}
        return frame | ({"caption": self.caption} if self.caption else {}) | self.measure(progress)

    def notes(self, result: Result) -> list[str]:
        """The lines below all tables: how the figures were measured, and on which machine."""
        caption = [result["caption"]] if "caption" in result else []
        gpu = [ON_A_GPU] if is_gpu(result["machine"].get("device", "cpu")) else []
        return [*caption, *gpu, machine_line(result["machine"])]

    def draw(self, result: Result) -> str | None:
        """Draw the figures if a picture was requested, and return a message about it."""
        return None


@dataclass(frozen=True)
class DrawnBench(Bench):
    """A bench that can draw its figures."""

    picture: Path | None = None
    """Also draw the figures, into this file."""

    def check(self) -> None:
        super().check()
        if self.picture is not None:
            check_path(self.picture)

    @abstractmethod
    def panels(self, result: Result) -> list[Panel]:
        """The figures as plots."""

    def draw(self, result: Result) -> str | None:
        if self.picture is None:
            return None
        panels = [panel for panel in self.panels(result) if panel.curves]
        if not panels:
            return f"{self.picture} was not drawn: nothing was measured"
        draw_panels(panels, self.picture)
        return str(self.picture)


BENCHES: Registry[type[Bench]] = Registry("bench", "longwave.bench")


def scaling(
    title: str, xlabel: str, ylabel: str, lines: Mapping[str, Points], paper: Mapping[str, Points] = {}
) -> Panel:
    """Named lines over a length, a size or a context, on logarithmic axes; those of the paper are dashed."""
    curves = []
    for style, suffix, own in (("-", "", lines), ("--", ", the paper", paper)):
        for name, points in own.items():
            if points:
                x, y = zip(*sorted(points), strict=True)
                colour = COLOURS[[*lines, *paper].index(name) % len(COLOURS)]
                curves.append(Curve(name + suffix, x, y, colour, style))
    return Panel(title, xlabel, ylabel, curves, is_scaling=True)


def table(title: str, rows: Iterable[Any], columns: Mapping[str, Callable[[Any], str]], **options: Any) -> TextTable:
    """A table whose columns are given as the text of their cell in a row."""
    return TextTable(title, list(columns), [[cell(row) for cell in columns.values()] for row in rows], **options)
