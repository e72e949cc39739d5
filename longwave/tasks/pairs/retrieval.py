"""Pairs of documents with a label, in the files of the Long Range Arena's Retrieval (papers of the ACL anthology, AAN).

A line has five tab-separated columns without quotes: a label (0.0 or 1.0), two identifiers, two texts. The texts are
Python bytes literals, b'...', in which line ends and non-ASCII characters are escaped. The published models read a
literal as it stands, character by character.

A paper is in many pairs, so each document is stored once, and pairs refer to documents by number.
"""

import ast
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.core.progress import Progress
from longwave.io.download.catalogue import MissingData, data_dir

FOLDER = "tsv_data"  # in the published archive
FILES = {
    split: f"new_aan_pairs.{name}.tsv" for split, name in (("train", "train"), ("valid", "eval"), ("test", "test"))
}
LABELS = {b"0.0": 0, b"1.0": 1, b"0": 0, b"1": 1}
OPENED = (b"b'", b'b"')  # how a bytes literal begins


@dataclass(frozen=True, eq=False)
class Pairs:
    """Concatenated documents as Unicode code points, and labelled pairs of them."""

    codes: NDArray[Any]  # (total,)
    lengths: NDArray[np.int64]  # (documents,)
    pairs: NDArray[np.int64]  # (n, 2): which documents
    labels: NDArray[np.int64]  # (n,)
    repaired: int = 0  # documents that were not valid UTF-8

    def __len__(self) -> int:
        return len(self.labels)

    def counts(self) -> NDArray[np.int64]:
        """The counts of all codes in the texts of all pairs, where a document may be in many."""
        times = np.bincount(self.pairs.ravel(), minlength=len(self.lengths))
        total = np.zeros(int(self.codes.max(initial=0)) + 1, np.int64)
        start = 0
        for length, count in zip(self.lengths.tolist(), times.tolist(), strict=True):
            total += count * np.bincount(self.codes[start : start + length], minlength=len(total))
            start += length
        return total


def require(folder: Path | None = None) -> Path:
    """The folder with the published files; MissingData if they are absent."""
    path = data_dir(folder) / FOLDER
    missing = [name for name in FILES.values() if not (path / name).exists()]
    if missing:
        raise MissingData(
            f"data set 'aan' is missing: {path} has no {', '.join(missing)}\n"
            "longwave does not download it. Unpack lra_release.gz of the Long Range Arena, and use its inner folder: "
            "--data-dir lra_release/lra_release\n"
            "Without it, `longwave train lra-retrieval-synthetic-small` trains on a synthetic stand-in."
        )
    return path


def read(path: Path, most: int, decode: bool, progress: Progress) -> Pairs:
    """The pairs of a file, each text cut to `most` characters: of the literal, or decoded."""
    documents = _Documents(most, decode)
    pairs, labels = [], []
    progress.start(f"reading {path.name}", path.stat().st_size)
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                label, first, second = _columns(line.rstrip(b"\r\n"))
                pairs.append((documents.add(first), documents.add(second)))
            except ValueError as error:
                raise ValueError(f"{path}: line {number}: {error}") from error
            labels.append(label)
            progress.advance(len(line))
    if not labels:
        raise ValueError(f"{path}: expected lines of a label, two identifiers and two texts, got none")
    lengths = np.array([len(codes) for codes in documents.codes], np.int64)
    numbers = np.array(pairs, np.int64), np.array(labels, np.int64)
    return Pairs(np.concatenate(documents.codes), lengths, *numbers, documents.repaired)


def _columns(line: bytes) -> tuple[int, bytes, bytes]:
    columns = line.split(b"\t")
    if len(columns) != 5:
        raise ValueError(
            f"expected 5 tab-separated columns (label, two identifiers, two texts), got {len(columns)}: {line!r:.80}"
        )
    label, _, _, first, second = columns
    if label not in LABELS:
        raise ValueError(f"expected a label 0.0 or 1.0, got {label!r:.80}")
    if not first or not second:
        raise ValueError("expected two texts, got an empty one")
    return LABELS[label], first, second


class _Documents:
    """Documents as they are found, each stored once; 1 or 4 bytes per character, as the widest one takes."""

    def __init__(self, most: int, decode: bool) -> None:
        self.most, self.decode, self.repaired = most, decode, 0
        self.codes: list[NDArray[Any]] = []
        self.found: dict[bytes, int] = {}  # by digest

    def add(self, column: bytes) -> int:
        """The number of a document, stored if it is new."""
        digest = hashlib.blake2b(column, digest_size=16).digest()
        if digest not in self.found:
            self.found[digest] = len(self.codes)
            text = self._read(column)
            if text.isascii() or max(text) <= "\xff":
                self.codes.append(np.frombuffer(text.encode("latin-1"), np.uint8))
            else:
                self.codes.append(np.frombuffer(text.encode("utf-32-le"), np.uint32))
        return self.found[digest]

    def _read(self, column: bytes) -> str:
        if self.decode:
            content = evaluated(column)
            text = content.decode(errors="replace")
            self.repaired += "\ufffd" in text and "\ufffd".encode() not in content
            return text[: self.most]
        try:
            return column.decode()[: self.most]
        except UnicodeDecodeError as error:
            raise ValueError(f"expected text in UTF-8, got {error}") from error


# Texts and literals


def is_literal(text: bytes) -> bool:
    """Whether a text looks like a bytes literal: b'...' or b"..."."""
    return len(text) >= 3 and text.startswith(OPENED) and text[-1] == text[1]


def evaluated(literal: bytes) -> bytes:
    """The value of a bytes literal, parsed without evaluating code."""
    try:
        found = ast.literal_eval(literal.decode("ascii")) if is_literal(literal) else None
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(f"expected a bytes literal, b'...', got {literal!r:.80} ({error})") from error
    if not isinstance(found, bytes):
        raise ValueError(f"expected a bytes literal, b'...', got {literal!r:.80}")
    return found


def in_form(text: str, decode: bool) -> str:
    """A new text in the form of the training documents; it may be plain, or a bytes literal already."""
    if is_literal(text.encode()):
        return evaluated(text.encode()).decode(errors="replace") if decode else text
    return text if decode else repr(text.encode())


def line(label: int, names: tuple[str, str], texts: tuple[str, str]) -> bytes:
    """A pair as a line of a file."""
    return ("\t".join([f"{float(label)}", *names, *(repr(text.encode()) for text in texts)]) + "\n").encode()
