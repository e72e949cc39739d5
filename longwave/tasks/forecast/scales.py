"""The scales of the series of a panel: each is standardised by its own mean and deviation."""

import io
import zipfile
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.tasks.forecast.panel import Panel
from longwave.tasks.forecast.series import Floats, Series
from longwave.tasks.forecast.windows import ForecastData, ForecastInput


@dataclass(frozen=True, eq=False)
class Scales:
    """The mean and deviation of each series in training, by which it is standardised."""

    ids: tuple[str, ...]
    mean: Floats  # (series,)
    deviation: Floats

    FILE = "scales.npz"

    @classmethod
    def of(cls, data: ForecastData, inputs: ForecastInput) -> "Scales":
        """The scales from the training rows of each series of a panel."""
        panel: Any = data.series
        found = []
        for (_, one), rows in zip(panel.each(), data.borders[0] - data.starts, strict=True):
            own = inputs.scaled(one.values[:rows], None if one.known is None else one.known[:rows], one.source)
            found.append((own.mean[0], own.deviation[0]))
        mean, deviation = np.array(found).T
        return cls(panel.ids, mean, deviation)

    @cached_property
    def places(self) -> dict[str, int]:
        """The number of each series."""
        return {name: k for k, name in enumerate(self.ids)}

    def inputs_of(self, inputs: ForecastInput, name: str, series: Series) -> ForecastInput:
        """The model's input facts for a series; a series that was not trained on is scaled by its own rows."""
        k = self.places.get(name)
        if k is None:
            return inputs.scaled(series.values, series.known, series.source)
        return replace(inputs, mean=(float(self.mean[k]),), deviation=(float(self.deviation[k]),))

    def to_bytes(self) -> bytes:
        """The content of a file beside a run."""
        content = io.BytesIO()
        np.savez(content, ids=np.array(self.ids), mean=self.mean, deviation=self.deviation)
        return content.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes, source: str) -> "Scales":
        """The inverse of `to_bytes`; `source` is what messages call the file."""
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as found:
                ids, mean, deviation = (found[name] for name in ("ids", "mean", "deviation"))
            fits = ids.dtype.kind == "U" and ids.ndim == 1 and mean.shape == deviation.shape == ids.shape
            if not fits or not (np.isfinite(mean) & (deviation > 0)).all():
                raise ValueError(f"got {ids.dtype} ids of shape {ids.shape}, and scales of shape {mean.shape}")
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{source}: expected the scales of series ({error})") from error
        return cls(tuple(ids.tolist()), mean, deviation)


def standard_values(
    series: Series, inputs: ForecastInput, scales: Scales | None, rows: int | None = None
) -> NDArray[np.float32]:
    """The first rows of a series, by default all of them, as the model sees them: (rows, columns)."""
    if scales is not None and isinstance(series, Panel):
        each = (scales.inputs_of(inputs, name, one).standardise(one.values) for name, one in series.each())
        return np.concatenate([values.astype(np.float32) for values in each])
    order = [series.columns.index(name) for name in inputs.columns]
    return inputs.standardise(series.values[:rows, order]).astype(np.float32)
