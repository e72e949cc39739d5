"""The data sets that can be made, one file each: a module registers its set in `longwave.data.making.MAKERS`."""
