"""ListOps of the Long Range Arena."""

from longwave.data import listops
from longwave.data.making import MAKERS, Maker

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
