"""ListOps of the Long Range Arena."""

from longwave.io.download.making import MAKERS, Maker
from longwave.tasks.tokens import listops

MAKERS.register("listops")(
    Maker(
        "ListOps: nested lists of operators on digits",
        "listops-1000",
        tuple(listops.FILES.values()),
        count=100_000,
        seed=0,
        make=listops.make,
    )
)
