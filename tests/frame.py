"""A data frame for tests: pandas and polars need not be installed."""

import numpy as np


class Column:
    def __init__(self, cells):
        self.cells = cells

    def to_numpy(self):
        return np.asarray(self.cells)


class Series:
    """The same of a Series."""

    def __init__(self, cells, name=None, index=None):
        self.cells, self.name, self.index = cells, name, index

    def to_frame(self, name):
        return Frame(self.index, **{name: self.cells})


class Frame(dict):
    """The little of a data frame that is asked for."""

    def __init__(self, index=None, **columns):
        super().__init__({name: Column(cells) for name, cells in columns.items()})
        self.columns = list(columns)
        if index is not None:
            self.index = Column(index)

    def __len__(self):
        return len(next(iter(self.values())).to_numpy())
