"""Words that were separated from their punctuation, joined again into written text.

The rules are those of the tokeniser that WikiText was made with, turned round. They are no exact inverse: on which side
of a quotation mark the space was, say, is not known, so that marks are taken to open and close in turn within a line.
"""

from collections.abc import Iterable, Iterator

JOINED = {"@-@": "-", "@,@": ",", "@.@": "."}  # within a word or a number
TO_THE_LEFT = {",", ".", ";", ":", "!", "?", ")", "]", "}", "%", "'", "'s", "'m", "'d", "'re", "'ve", "'ll", "n't"}
TO_THE_RIGHT = {"(", "[", "{", "$", "£", "€", "#"}
QUOTE = '"'


def detokenised(words: Iterable[str]) -> Iterator[str]:
    """Each word with the space before it, if there is one, as the words come; "\\n" ends a line."""
    joins, quoted = True, False  # whether the next word follows without a space; whether a quotation is open
    for word in words:
        if word == "\n":
            joins, quoted = True, False
            yield word
        elif word in JOINED:
            joins = True
            yield JOINED[word]
        elif word == QUOTE:
            yield word if joins or quoted else f" {word}"
            joins = quoted = not quoted
        else:
            yield word if joins or word in TO_THE_LEFT else f" {word}"
            joins = word in TO_THE_RIGHT
