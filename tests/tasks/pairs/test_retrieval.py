"""Files of pairs of documents: columns, literals, documents that are kept once, what is refused."""

import numpy as np
import pytest
from pair_files import TEXTS, line, write_aan

from longwave.core.progress import SILENT
from longwave.io.download.catalogue import MissingData
from longwave.tasks.pairs import retrieval
from longwave.tasks.tokens.data import SPECIAL, Vocabulary

GOOD = line(1.0, "one", "two")


def read(path, most=10_000, decode=False):
    return retrieval.read(path, most, decode, SILENT)


def texts(found):
    """The two texts of each pair."""
    documents = ["".join(map(chr, part)) for part in np.split(found.codes, np.cumsum(found.lengths)[:-1])]
    return [(documents[a], documents[b]) for a, b in found.pairs]


@pytest.fixture
def path(tmp_path):
    return write_aan(tmp_path) / "new_aan_pairs.train.tsv"


def test_literals_are_kept_as_they_stand_and_decoded_if_asked_for(path):
    expected = [(TEXTS[k % 4], TEXTS[(k + (k // 4) % 2) % 4]) for k in range(24)]
    found = read(path)
    assert texts(found) == [(repr(a.encode()), repr(b.encode())) for a, b in expected]
    assert texts(read(path, decode=True)) == expected
    assert found.labels.tolist() == [int(a == b) for a, b in expected]
    assert found.codes.dtype == np.uint8


def test_a_document_of_many_pairs_is_kept_once(path):
    found = read(path)
    assert len(found) == 24
    assert len(found.lengths) == 4
    assert len(found.codes) == sum(len(repr(text.encode())) for text in TEXTS)


def test_characters_are_counted_in_the_texts_of_all_pairs(path):
    found = read(path)
    every = "".join(a + b for a, b in texts(found))
    counts = found.counts()
    assert {chr(code): int(counts[code]) for code in np.flatnonzero(counts)} == {c: every.count(c) for c in set(every)}
    vocabulary = Vocabulary.of(counts, chr)
    assert vocabulary == Vocabulary.of(np.bincount([ord(c) for c in every]), chr)
    assert vocabulary.tokens[:3] == SPECIAL


@pytest.mark.parametrize("decode", [False, True])
def test_texts_are_cut_as_characters(path, decode):
    whole, cut = texts(read(path, decode=decode)), texts(read(path, most=13, decode=decode))
    assert cut == [(a[:13], b[:13]) for a, b in whole]
    assert any(len(a) > 13 for a, _ in whole)


def test_characters_of_any_width_are_kept(tmp_path):
    """The first that takes more than a byte widens those before it."""
    both = [("caf\u00e9", "plain"), ("\u65e5\u672c \U0001f600", "again")]
    (tmp_path / "a.tsv").write_bytes(b"".join(line(0.0, *pair) for pair in both))
    assert texts(read(tmp_path / "a.tsv", decode=True)) == both
    (tmp_path / "b.tsv").write_bytes("0.0\ti\tj\tna\u00efve\t\u65e5\n".encode())
    assert texts(read(tmp_path / "b.tsv")) == [("na\u00efve", "\u65e5")]


def test_line_ends_of_either_kind_and_quotes_are_read(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"1.0\ti\tj\tb'it\\'s'\tb\"a 'b'\"\r\n0.0\ti\tj\t\"x\t'y'")
    found = read(tmp_path / "a.tsv")
    assert texts(found) == [("b'it\\'s'", "b\"a 'b'\""), ('"x', "'y'")]
    assert found.labels.tolist() == [1, 0]


def test_bytes_that_are_no_utf_8_are_decoded_with_a_mark_and_counted(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"1.0\ti\tj\tb'caf\\xe9'\tb'\\xef\\xbf\\xbd'\n")
    found = read(tmp_path / "a.tsv", decode=True)
    assert texts(found) == [("caf\ufffd", "\ufffd")]
    assert found.repaired == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected lines of a label, two identifiers and two texts, got none"),
        (GOOD + b"1.0\ti\tj\tb'a'\n", "line 2: expected 5 tab-separated columns .* got 4"),
        (GOOD + b"1.0\ti\tj\tb'a'\tb'b'\tb'c'\n", "line 2: expected 5 tab-separated columns .* got 6"),
        (b"label\tid1\tid2\ttext1\ttext2\n", "line 1: expected a label 0.0 or 1.0, got b'label'"),
        (b"0.5\ti\tj\tb'a'\tb'b'\n", "line 1: expected a label 0.0 or 1.0, got b'0.5'"),
        (b"1.0\ti\tj\tb'a'\t\n", "line 1: expected two texts, got an empty one"),
        (b"1.0\ti\tj\tb'a'\tcaf\xe9\n", "line 1: expected text in UTF-8"),
        (GOOD + b"\n", "line 2: expected 5 tab-separated columns .* got 1"),
    ],
)
def test_damaged_files_are_refused_with_the_line(content, message, tmp_path):
    (tmp_path / "a.tsv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / "a.tsv")


@pytest.mark.parametrize(
    "literal", [b"plain", b"'text'", b"b'cut", b"b'a' + b'b'", b"b'a', b'c'", b"b'\\x'", b"b'\xe9'"]
)
def test_what_is_no_bytes_literal_cannot_be_decoded(literal, tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"1.0\ti\tj\tb'a'\t" + literal + b"\n")
    with pytest.raises(ValueError, match=r"line 1: expected a bytes literal, b'\.\.\.', got"):
        read(tmp_path / "a.tsv", decode=True)


def test_a_new_text_takes_the_form_of_those_of_training():
    assert retrieval.in_form("caf\u00e9", decode=False) == "b'caf\\xc3\\xa9'"
    assert retrieval.in_form("caf\u00e9", decode=True) == "caf\u00e9"
    assert retrieval.in_form("b'caf\\xc3\\xa9'", decode=False) == "b'caf\\xc3\\xa9'"
    assert retrieval.in_form("b'caf\\xc3\\xa9'", decode=True) == "caf\u00e9"
    assert retrieval.in_form("b'", decode=True) == "b'"


def test_missing_files_are_named_with_what_to_do(tmp_path):
    with pytest.raises(MissingData) as missing:
        retrieval.require(tmp_path)
    for part in (str(tmp_path / "tsv_data"), "new_aan_pairs.eval.tsv", "lra_release/lra_release", "synthetic-small"):
        assert part in str(missing.value)
    write_aan(tmp_path)
    assert retrieval.require(tmp_path) == tmp_path / "tsv_data"
