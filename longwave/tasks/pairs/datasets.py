"""A synthetic stand-in for Retrieval of the Long Range Arena."""

from longwave.io.download.making import MAKERS, Maker
from longwave.tasks.pairs import topics

MAKERS.register("retrieval-synthetic")(
    Maker(
        "Synthetic stand-in for Retrieval: pairs of random texts, of one topic or of two",
        "retrieval-synthetic",
        tuple(topics.FILES.values()),
        count=25_000,
        seed=0,
        make=topics.make,
    )
)
