"""Pathfinder and Path-X of the Long Range Arena."""

from functools import partial

from longwave.io.download.making import MAKERS, Maker
from longwave.tasks.pathfinder.drawing import SETTINGS
from longwave.tasks.pathfinder.layout import HARD, make

TITLES = {
    "pathfinder": "Pathfinder: do two marked ends belong to one snake?",
    "pathx": "Path-X: the same in 128 x 128 pixels",
}
for name, title in TITLES.items():
    MAKERS.register(name)(
        Maker(
            title,
            f"pathfinder{SETTINGS[name].size}",
            (f"{HARD}/metadata",),
            count=200_000,
            seed=0,
            make=partial(make, name),
            options=("equal_contrast", "all_orientations"),
        )
    )
