"""Vocabularies: order, rare tokens, files."""

import numpy as np
import pytest

from longwave.tasks.tokens.data import SPECIAL, Vocabulary


def codes(text):
    return np.array([ord(character) for character in text], np.uint32)


def vocabulary_of(text, least=1):
    return Vocabulary.of(np.bincount(codes(text)), chr, least)


def test_the_most_frequent_tokens_come_first_and_equally_frequent_ones_in_their_order():
    assert vocabulary_of("cabbacc\u0085é").tokens == (*SPECIAL, "c", "a", "b", "\u0085", "é")


def test_rare_tokens_are_unknown():
    found = vocabulary_of("aaabbc", least=2)
    assert found.tokens == ("<pad>", "<unk>", "<eos>", "a", "b")
    assert found.size == 5
    assert found.encode("cab?") == [1, 3, 4, 1]
    assert found.renumbered(codes("cab?"), chr).tolist() == [1, 3, 4, 1]
    assert found.decode([3, 1, 4]) == ["a", "<unk>", "b"]


def test_numbers_take_as_few_bytes_as_they_need():
    few, many = (vocabulary_of("".join(map(chr, range(count)))) for count in (200, 300))
    assert few.renumbered(codes("ab"), chr).dtype == np.uint8
    assert many.renumbered(codes("ab"), chr).dtype == np.uint16
    assert many.renumbered(codes(""), chr).tolist() == []


def test_a_vocabulary_comes_back_from_its_file(tmp_path):
    found = vocabulary_of('ab\n\r"\u0085\u2028é\ud7ff')
    for name, content in found.artifacts().items():
        (tmp_path / name).write_bytes(content)
    assert Vocabulary.from_folder(tmp_path) == found


@pytest.mark.parametrize("content", [None, "[", '["a"]', "3"])
def test_what_is_no_vocabulary_is_refused(content, tmp_path):
    if content is not None:
        (tmp_path / "tokens.json").write_text(content)
    with pytest.raises(ValueError, match=r"tokens\.json: expected"):
        Vocabulary.from_folder(tmp_path)
