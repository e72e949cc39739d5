"""Pathfinder: the composition of the images of each set, after the description of the Long Range Arena.

Lengths are in pixels. An image has two long snakes of dashes ("paddles"), some short distractors, and two discs: at the
start of one long snake, and at the end of the same one (class 1) or of the other (class 0).
"""

from dataclasses import dataclass, replace

LEVELS = 13  # of difficulty; the highest is the set itself
ALONE = 4  # lowest levels, without distractors


@dataclass(frozen=True)
class Setting:
    """Drawing parameters of the images of a set."""

    size: int  # of an image, each way
    margins: tuple[int, ...]  # free pixels around a paddle; drawn for each image
    length: int  # of a paddle
    thickness: float
    radius: float  # of a marker
    distance: int  # between the two starts
    continuity: float  # the larger, the straighter
    contrasts: tuple[float, float]  # of long snakes and distractors; only the ratio matters
    distractors: int  # attempted
    paddles: tuple[int, int] = (14, 4)  # of a long snake, and of a distractor
    all_orientations: bool = False  # else as in the published generator, where a slip leaves few directions to start in

    def with_options(self, equal_contrast: bool = False, all_orientations: bool = False) -> "Setting":
        """Change the setting: distractors as bright as the snakes, or snakes that start in any direction."""
        return replace(
            self,
            contrasts=(1.0, 1.0) if equal_contrast else self.contrasts,
            all_orientations=all_orientations or self.all_orientations,
        )

    def at_level(self, level: int) -> "Setting":
        """An easier setting: snakes grow from two paddles to those of the set; distractors are added later."""
        longest, own = self.paddles
        length = 2 + round((longest - 2) * level / (LEVELS - 1))
        share = max(0, level - ALONE + 1) / (LEVELS - ALONE)
        return replace(self, paddles=(length, min(own, length)), distractors=round(self.distractors * share))

    @property
    def most_paddles(self) -> int:
        """The most paddles that an image can have."""
        return 2 * self.paddles[0] + self.distractors * self.paddles[1]


SETTINGS = {
    "pathfinder": Setting(
        size=32,
        margins=(1,),
        length=2,
        thickness=0.5,
        radius=1.5,
        distance=7,
        continuity=1.0,
        contrasts=(1.5, 2.0),
        distractors=10,
    ),
    "pathx": Setting(
        size=128,
        margins=(2, 3),
        length=5,
        thickness=1.5,
        radius=3,
        distance=20,
        continuity=1.8,
        contrasts=(0.9, 0.9),
        distractors=17,
    ),
}
