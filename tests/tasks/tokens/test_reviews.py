"""The film reviews: order, characters, what is refused."""

import os
from pathlib import Path

import numpy as np
import pytest
from token_files import write_reviews

from longwave.core.progress import SILENT
from longwave.tasks.tokens import reviews
from longwave.tasks.tokens.data import Vocabulary

REAL = os.environ.get("LONGWAVE_DATA")


def read(folder, most=10_000):
    return reviews.read(folder, most, SILENT)


def texts(found):
    ends = np.cumsum(found.lengths)
    return ["".join(map(chr, part)) for part in np.split(found.codes, ends[:-1])]


def test_reviews_come_class_by_class_in_the_order_of_their_numbers(tmp_path):
    folder = write_reviews(tmp_path) / "train"
    found = read(folder)
    assert found.labels.tolist() == [0] * 12 + [1] * 12
    paths = [folder / name / f"{k}_{k % 5}.txt" for name in ("neg", "pos") for k in range(12)]
    assert texts(found) == [path.read_bytes().decode() for path in paths]


@pytest.mark.parametrize("most", [1, 3, 5, 6, 100])
def test_characters_are_those_of_the_file_and_cut_as_characters(most, tmp_path):
    """Line ends of every kind stay, and a character of several bytes is never cut in two."""
    text = "é\r\n\u0085\u2028€\t😀ab" * 3
    for name in ("neg", "pos"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0_1.txt").write_bytes(text.encode())
    assert texts(read(tmp_path, most)) == [text[:most]] * 2


def test_what_is_no_review_is_refused(tmp_path):
    folder = write_reviews(tmp_path) / "train"
    (folder / "neg" / "0_0.txt").write_bytes(b"caf\xe9 noir")
    with pytest.raises(ValueError, match=r"0_0\.txt: expected text in UTF-8"):
        read(folder)
    (folder / "neg" / "0_0.txt").unlink()
    (folder / "neg" / "notes.txt").write_bytes(b"")
    with pytest.raises(ValueError, match=r"expected reviews called NUMBER_RATING\.txt, got notes\.txt"):
        read(folder)
    for file in (folder / "neg").iterdir():
        file.unlink()
    with pytest.raises(ValueError, match="got none"):
        read(folder)


@pytest.mark.skipif(not REAL, reason="LONGWAVE_DATA is not set: no real data to read")
def test_the_figures_of_the_published_reviews():
    """131 characters are seen 15 times or more in the cut texts, the tab among them."""
    folder = Path(REAL) / "aclImdb" / "train"
    if not folder.exists():
        pytest.skip("LONGWAVE_DATA has no aclImdb")
    found = read(folder, 4095)
    assert (len(found), int((found.labels == 1).sum()), int((found.lengths == 4095).sum())) == (25_000, 12_500, 728)
    vocabulary = Vocabulary.of(np.bincount(found.codes), chr, 15)
    assert vocabulary.size == 3 + 131
    assert len(np.flatnonzero(np.bincount(found.codes))) == 178
    assert sum(ord(token) > 127 for token in vocabulary.tokens[3:]) == 35
    assert "\t" in vocabulary.tokens
    assert int((found.codes == 0x85).sum()) == 675
