"""Rows of windows: which tokens come in, which are to come out, and in which order."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from longwave.tasks.autoregressive import PADDING, TokenRows


@given(rows=st.integers(1, 4), row_length=st.integers(2, 20), left=st.integers(0, 3), length=st.integers(1, 8))
def test_each_token_is_a_target_once_but_the_first_of_a_row(rows, row_length, left, length):
    """And comes in once, but the last of a row; what is left over is dropped."""
    tokens = np.arange(rows * row_length + min(left, rows - 1), dtype=np.int32)
    split = TokenRows(tokens, length, rows=rows)
    batch = split.batch(range(len(split)))
    known = batch["y"] != PADDING
    table = tokens[: rows * row_length].reshape(rows, row_length)
    assert sorted(batch["y"][known].tolist()) == sorted(table[:, 1:].ravel().tolist()) == sorted(split.targets.tolist())
    assert torch.equal(batch["y"][known], batch["x"][known] + 1)  # the token to the right
    assert batch["x"].dtype == batch["y"].dtype == torch.long


def test_consecutive_examples_are_the_same_window_of_all_rows():
    split = TokenRows(np.arange(22), 3, rows=2)  # rows of 11 tokens: three windows of 3 and one of 1
    assert len(split) == 8
    assert split.batch([2, 3])["x"].tolist() == [[3, 4, 5], [14, 15, 16]]
    assert split.batch([6, 7])["x"].tolist() == [[9], [20]]  # a short window alone is not padded
    mixed = split.batch([0, 7])
    assert mixed["y"].tolist() == [[1, 2, 3], [21, PADDING, PADDING]]
    assert split.batch([7])["x"].tolist() == [[20]]


def test_rows_are_rotated_and_then_hold_the_same_tokens():
    split = TokenRows(np.arange(10), 2, rows=2).cut_elsewhere(13)  # by 3
    batch = split.batch(range(len(split)))
    assert batch["x"].tolist() == [[3, 4], [8, 9], [0, 1], [5, 6]]
    assert batch["y"].tolist() == [[4, 0], [9, 5], [1, 2], [6, 7]]


def test_an_uncut_row_is_all_its_windows():
    split = TokenRows(np.arange(10), 2, rows=2)
    batch = split.uncut().batch([0, 1])
    assert batch["x"].tolist() == [[0, 1, 2, 3], [5, 6, 7, 8]]
    assert batch["y"].tolist() == [[1, 2, 3, 4], [6, 7, 8, 9]]
