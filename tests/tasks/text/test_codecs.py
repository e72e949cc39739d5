"""Text to tokens and back, by bytes and by words, and the files of text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwave.tasks.text.codecs import CODECS, VOCABULARY, Bytes, Words, read_bytes, read_lines

SAMPLE = "the sea\n\nis wide ."


def words_of(text, ties="alphabet"):
    return Words.of_lines(text.split("\n"), ties)


@given(st.text())
def test_bytes_come_back_as_the_text_they_were(written):
    tokens = Bytes().encode(written)
    assert "".join(Bytes().decode(tokens)) == written
    assert all(0 <= token < Bytes.size for token in tokens)


def test_a_character_appears_when_its_last_byte_is_there():
    assert list(Bytes().decode("aé€".encode())) == ["a", "", "é", "", "", "€", ""]


def test_bytes_that_are_no_text_are_replaced_and_not_refused():
    assert "".join(Bytes().decode([0xFF, ord("a"), 0xC3])) == "\ufffda\ufffd"


def test_decoding_asks_for_no_token_before_it_is_wanted():
    asked = []
    tokens = (asked.append(k) or k for k in (65, 66))
    pieces = Bytes().decode(tokens)
    assert next(pieces) == "A"
    assert asked == [65]


def test_words_are_in_the_order_of_their_frequency_and_line_ends_come_first():
    words = words_of("b a\nb c a\nb\n")
    assert words.words == ("<eos>", "b", "a", "c")
    assert words == words_of("b\nb a c\na b\n")  # whatever the order of the lines
    assert words.encode("a b\n\nc") == [2, 1, 0, 0, 3]


def test_equally_frequent_words_may_be_ordered_by_their_first_appearance():
    text = "d b\nb c a <eos>\nc d\n"
    assert words_of(text).words == ("<eos>", "b", "c", "d", "a")
    assert words_of(text, ties="appearance").words == ("<eos>", "d", "b", "c", "a")


def test_words_come_back_as_the_text_they_were():
    words, written = words_of("the sea is wide ."), "the sea\n\nis wide ."
    tokens = words.encode(written)
    assert "".join(words.decode(tokens)) == written
    assert len(list(words.decode(tokens))) == len(tokens)


def test_a_word_that_is_not_known_is_unk_if_there_is_one():
    words = words_of("a <unk> b")
    assert words.encode("a zebra") == [words.words.index("a"), words.words.index("<unk>")]
    assert words.unknown("a zebra b zebra") == ["zebra"]
    with pytest.raises(ValueError, match="the word 'zebra' is not in the vocabulary, which has no <unk> either"):
        words_of("a b").encode("a zebra")


def test_words_survive_a_round_trip_through_a_file(tmp_path):
    words = words_of("café <unk> a 'b' \u2013 c")
    (tmp_path / VOCABULARY).write_bytes(words.artifacts()[VOCABULARY])
    assert Words.from_folder(tmp_path) == words


@pytest.mark.parametrize("content", [None, b"", b"the\n<eos>\n", b"\xff\n"])
def test_a_file_that_is_no_vocabulary_is_refused(content, tmp_path):
    if content is not None:
        (tmp_path / VOCABULARY).write_bytes(content)
    with pytest.raises(ValueError, match=r"vocabulary.txt: expected the vocabulary of a run, one word per line"):
        Words.from_folder(tmp_path)


@pytest.mark.parametrize(
    ("words", "prose"),
    [
        ("the sea , is <unk> .", "the sea, is <unk>."),
        ("a river @-@ boat of 1 @,@ 200 @.@ 5 tons", "a river-boat of 1,200.5 tons"),
        ('he said " no " ( and left ) ; she did n\'t', 'he said "no" (and left); she didn\'t'),
        ('the king \'s ship , the " Argo " : lost !', 'the king\'s ship, the "Argo": lost!'),
        ('" a\n" b', '"a\n"b'),  # a quotation ends with its line
        (" = Sea = \n\n the sea", "= Sea =\n\nthe sea"),
        ("$ 5 [ sic ] , 3 %", "$5 [sic], 3%"),
    ],
)
def test_prose_has_the_spaces_of_written_text(words, prose):
    codec = words_of(words)
    pieces = list(codec.prose(codec.encode(words)))
    assert "".join(pieces) == prose
    assert len(pieces) == len(codec.encode(words))  # one a token: as they come


# The interface of all codecs


def make(level):
    return {"bytes": Bytes(), "words": words_of(SAMPLE)}[level]


@pytest.mark.parametrize("level", CODECS)
def test_every_codec_restores_the_text_and_stays_below_its_size(level):
    codec = make(level)
    tokens = codec.encode(SAMPLE)
    assert "".join(codec.decode(tokens)) == SAMPLE
    assert 0 <= min(tokens) <= max(tokens) < codec.size
    assert codec.unit == level.removesuffix("s")


@pytest.mark.parametrize("level", CODECS)
def test_every_codec_is_read_back_from_its_artifacts(level, tmp_path):
    codec = make(level)
    for name, content in codec.artifacts().items():
        (tmp_path / name).write_bytes(content)
    restored = CODECS[level].from_folder(tmp_path)
    assert restored.encode(SAMPLE) == codec.encode(SAMPLE)
    assert (restored.unit, restored.size) == (codec.unit, codec.size)


def test_bytes_know_every_text_and_need_no_file(tmp_path):
    assert Bytes().unknown("anything \u2013 at all") == []
    assert Bytes().artifacts() == {}


def test_the_stored_vocabulary_has_one_word_per_line():
    words = words_of("b café b")
    assert words.artifacts() == {VOCABULARY: "<eos>\nb\ncafé\n".encode()}
    assert VOCABULARY == "vocabulary.txt"


# Files


def test_bytes_of_a_file_are_taken_as_they_are(tmp_path):
    (tmp_path / "my.txt").write_bytes(bytes(range(256)))
    assert bytes(read_bytes(tmp_path / "my.txt")) == bytes(range(256))


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "empty.txt").touch()
    for name, kind, message in (
        ("none.txt", FileNotFoundError, "none.txt: no such file; expected a text file"),
        ("", ValueError, "expected a text file, got a folder"),
        ("empty.txt", ValueError, "empty.txt: the file is empty; expected text"),
    ):
        with pytest.raises(kind, match=message):
            read_bytes(tmp_path / name)


def test_the_last_line_of_a_text_ends_like_all_others(tmp_path):
    for content in (b"a\nb", b"a\nb\n"):
        (tmp_path / "my.txt").write_bytes(content)
        assert list(read_lines(tmp_path / "my.txt")) == ["a", "b"]
        assert list(words_of("a b").encode_lines(read_lines(tmp_path / "my.txt"))) == [1, 0, 2, 0]


def test_a_file_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "my.txt").write_bytes("café\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"my.txt: expected text in UTF-8, got .* download it again"):
        list(read_lines(tmp_path / "my.txt"))
