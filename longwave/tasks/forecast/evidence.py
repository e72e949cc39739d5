"""Test whether a change of a forecast lowers the error on held-out rows by more than chance.

Neighbouring windows share nearly all of their rows, so that what counts are blocks as long as the horizon. Changes are
judged by an upper bound, the mean over blocks and one and a half standard errors: if it is below zero, the change pays.
"""

import numpy as np

from longwave.tasks.forecast.series import Floats

CERTAIN = 1.5  # standard errors
FEWEST = 3  # blocks that can show anything
SHARES = np.linspace(0, 1, 101)


def upper_bound(changes: Floats) -> Floats:
    """An upper bound of the mean of changes (..., blocks); infinite if there are too few."""
    count = changes.shape[-1]
    if count < FEWEST:
        return np.full(changes.shape[:-1], np.inf)
    return np.asarray(changes.mean(-1) + CERTAIN * changes.std(-1, ddof=1) / np.sqrt(count))


def pays(changes: Floats) -> bool:
    """Whether changes of the error, one for each block, lower it by more than chance."""
    return bool(upper_bound(changes) < 0)


def paying_share(products: Floats, squares: Floats) -> float:
    """The share of a change of a forecast whose change of the error has the lowest upper bound; 0 if none pays.

    `products` of error and change, and `squares` of the change, are means over each block: in a share s the squared
    error changes by s^2 squares - 2 s products.
    """
    bounds = upper_bound(SHARES[:, None] * (SHARES[:, None] * squares - 2 * products))
    best = int(np.argmin(bounds))
    return float(SHARES[best]) if bounds[best] < 0 else 0.0
