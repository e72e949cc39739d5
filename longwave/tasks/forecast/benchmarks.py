"""The public data sets of forecasting: how each is split, and what the paper's S4 scores on them."""

from dataclasses import dataclass
from typing import Any, Literal

Features = Literal["S", "M"]  # univariate: the target alone; multivariate: all columns in, all columns out
MONTH = 30 * 24  # hours, as Informer counts


def share_borders(rows: Any, test: int = 20) -> tuple[Any, Any, Any]:
    """The rows after the last of train, valid (10 %) and test, which has so many per cent, rounded as Informer does."""
    return rows * (90 - test) // 100, rows - rows * test // 100, rows


@dataclass(frozen=True)
class SeriesSet:
    """A public data set, called the same in the catalogue: what is forecast, and how it is split."""

    target: str
    columns: int
    rows_per_hour: int | None = (
        None  # split after 12, 16 and 20 months of 30 days; None: hourly, split after 70, 80 and 100 % of rows
    )
    time: str = "date"

    def borders(self, rows: int) -> tuple[int, int, int]:
        """The rows after the last of train, valid and test."""
        if self.rows_per_hour is None:
            return share_borders(rows)
        train, valid, test = (months * MONTH * self.rows_per_hour for months in (12, 16, 20))
        return train, valid, test


SETS = {
    "etth1": SeriesSet("OT", 7, rows_per_hour=1),
    "etth2": SeriesSet("OT", 7, rows_per_hour=1),
    "ettm1": SeriesSet("OT", 7, rows_per_hour=4),
    "weather": SeriesSet("WetBulbCelsius", 12),
    "ecl": SeriesSet("MT_320", 321),
}

# S4's figures on the test set. Data set, horizon; MSE and MAE of tab:informer-s; MSE and MAE of tab:informer-m.
_TABLE = (
    ("etth1", 24, 0.061, 0.191, 0.525, 0.542),
    ("etth1", 48, 0.079, 0.220, 0.641, 0.615),
    ("etth1", 168, 0.104, 0.258, 0.980, 0.779),
    ("etth1", 336, 0.080, 0.229, 1.407, 0.910),
    ("etth1", 720, 0.116, 0.271, 1.162, 0.842),
    ("etth2", 24, 0.095, 0.234, 0.871, 0.736),
    ("etth2", 48, 0.191, 0.346, 1.240, 0.867),
    ("etth2", 168, 0.167, 0.333, 2.580, 1.255),
    ("etth2", 336, 0.189, 0.361, 1.980, 1.128),
    ("etth2", 720, 0.187, 0.358, 2.650, 1.340),
    ("ettm1", 24, 0.024, 0.117, 0.426, 0.487),
    ("ettm1", 48, 0.051, 0.174, 0.580, 0.565),
    ("ettm1", 96, 0.086, 0.229, 0.699, 0.649),
    ("ettm1", 288, 0.160, 0.327, 0.824, 0.674),
    ("ettm1", 672, 0.292, 0.466, 0.846, 0.709),
    ("weather", 24, 0.125, 0.254, 0.334, 0.385),
    ("weather", 48, 0.181, 0.305, 0.406, 0.444),
    ("weather", 168, 0.198, 0.333, 0.525, 0.527),
    ("weather", 336, 0.300, 0.417, 0.531, 0.539),
    ("weather", 720, 0.245, 0.375, 0.578, 0.578),
    ("ecl", 48, 0.222, 0.350, 0.255, 0.352),
    ("ecl", 168, 0.331, 0.421, 0.283, 0.373),
    ("ecl", 336, 0.328, 0.422, 0.292, 0.382),
    ("ecl", 720, 0.428, 0.494, 0.289, 0.377),
    ("ecl", 960, 0.432, 0.497, 0.299, 0.387),
)

# The 50 settings of the two tables: data set, features and horizon, with the paper's scores of S4.
PAPER: dict[tuple[str, Features, int], dict[str, float]] = {
    **{(name, "S", horizon): {"mse": mse, "mae": mae} for name, horizon, mse, mae, _, _ in _TABLE},
    **{(name, "M", horizon): {"mse": mse, "mae": mae} for name, horizon, _, _, mse, mae in _TABLE},
}
HORIZONS = {name: [row[1] for row in _TABLE if row[0] == name] for name in SETS}
