"""The film reviews of IMDB: one file per review, in a folder per split and class, as in aclImdb."""

import os
from pathlib import Path

import numpy as np

from longwave.core.progress import Progress
from longwave.tasks.tokens.data import Labelled

CLASSES = ("neg", "pos")
FOLDERS = {"train": "train", "test": "test"}  # by split


def read(folder: Path, most: int, progress: Progress) -> Labelled:
    """The reviews of a split, negative ones first, each cut to `most` characters, as code points."""
    paths = {name: _files(folder / name) for name in CLASSES}
    progress.start(f"reading the reviews of {folder.name}", sum(map(len, paths.values())))
    texts, labels = [], []
    for label, name in enumerate(CLASSES):
        for path in paths[name]:
            texts.append(_text(path, most))
            labels.append(label)
            progress.advance(1)
    codes = [np.frombuffer(text.encode("utf-32-le"), np.uint32) for text in texts]
    lengths = np.array([len(text) for text in texts], np.int64)
    return Labelled(np.concatenate(codes), lengths, np.array(labels, np.int64))


def _files(folder: Path) -> list[str]:
    """The files of a class by their number: 0_9.txt, 1_7.txt, ..."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name.endswith(".txt")]
    number = {name: name.partition("_")[0] for name in names}
    if not names or not all(map(str.isdigit, number.values())):
        odd = next((name for name in names if not number[name].isdigit()), "none")
        raise ValueError(f"{folder}: expected reviews called NUMBER_RATING.txt, got {odd}")
    return [os.path.join(folder, name) for name in sorted(names, key=lambda name: (int(number[name]), name))]


def _text(path: str, most: int) -> str:
    """The first characters of a file. Read as bytes: text mode would convert line ends."""
    with open(path, "rb") as file:
        content = file.read(4 * most)  # at most 4 bytes per character
    try:
        return content.decode()[:most]
    except UnicodeDecodeError as error:
        if error.start >= most:  # a character that was cut in half
            return content[: error.start].decode()[:most]
        raise ValueError(f"{path}: expected text in UTF-8, got {error}") from error
