"""Lists of audio files with their labels: a folder with one subfolder per class, a CSV file, public sets."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from longwave.io.audio import ENDINGS
from longwave.io.read import read_table
from longwave.tasks.sequences.targets import SPLIT_OF, read_label, read_split

TEST_TAKES = 5  # of each free spoken digit and speaker: the official test set
SHOWN = 3  # other files that a note lists


@dataclass(frozen=True)
class ClipList:
    """Audio files, with their labels and splits if known."""

    paths: tuple[Path, ...]
    names: tuple[str, ...]  # what messages and tables call them
    source: str
    labels: tuple[str, ...] = ()  # none if not known
    splits: tuple[str, ...] | None = None  # train, valid or test
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.paths)


def from_folder(folder: Path, labelled: bool = True) -> ClipList:
    """The files below a folder, by name; each file's class is its subfolder.

    If the subfolders are called train, valid and test, the classes are the folders in these. Without `labelled`, all
    files below the folder.
    """
    folder = folder.expanduser()
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder; expected one with a subfolder per class")
    inside = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    shown = [path for path in inside if not any(part.startswith(".") for part in path.parts)]
    files = [folder / path for path in shown if path.suffix.lower() in ENDINGS]
    notes = []
    if others := [path.as_posix() for path in shown if path.suffix.lower() not in ENDINGS]:
        more = f" and {len(others) - SHOWN:,} more" if len(others) > SHOWN else ""
        notes.append(
            f"files skipped because they do not end in {', '.join(ENDINGS)}: {', '.join(others[:SHOWN])}{more}"
        )
    names = [path.relative_to(folder).as_posix() for path in files]
    parts = [Path(name).parts for name in names]
    first = {part[0] for part in parts}
    has_splits = first <= set(SPLIT_OF) and {SPLIT_OF.get(name) for name in first} >= {"train", "test"}
    splits = tuple(SPLIT_OF[part[0]] for part in parts) if has_splits else None
    if not labelled:
        return ClipList(tuple(files), tuple(names), str(folder), splits=splits, notes=tuple(notes))
    depth = 1 if has_splits else 0
    for part, name in zip(parts, names, strict=True):
        if len(part) < depth + 2:
            raise ValueError(
                f"{folder}: expected each file in a subfolder named after its class, but {name} is in none; move it, "
                "or use a CSV file (--csv) with the columns file and label"
            )
    labels = tuple(read_label(part[depth], f"{folder}/{name}") for part, name in zip(parts, names, strict=True))
    return ClipList(tuple(files), tuple(names), str(folder), labels, splits, tuple(notes))


def from_csv(
    csv: Path, file: str = "file", label: str = "label", split: str | None = None, labelled: bool = True
) -> ClipList:
    """The files listed in a CSV file, relative to it, with their labels."""
    used = (file, label, split or "")
    table = read_table(csv, used, used)
    names = [name.strip() for name in table.texts(file, "file")]
    if "" in names:
        where = table.where(names.index(""), file)
        raise ValueError(f"{where}: expected a file name, got nothing")
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise ValueError(f"{table.source}: expected each file once, got {name} {count} times")
    folder = Path(csv).expanduser().parent
    return ClipList(
        tuple(folder / Path(name).expanduser() for name in names),
        tuple(names),
        table.source,
        tuple(table.read(label, "label", read_label)) if labelled else (),
        tuple(table.read(split, "split", read_split)) if labelled and split is not None else None,
    )


# Public sets


def spoken_digits(folder: Path, valid_takes: int = TEST_TAKES) -> ClipList:
    """The Free Spoken Digit Dataset, recordings/DIGIT_SPEAKER_TAKE.wav, with splits by take."""
    files = sorted((folder / "recordings").glob("*.wav"))
    labels, splits = [], []
    for path in files:
        match = re.fullmatch(r"([0-9])_\w+_([0-9]+)", path.stem)
        if match is None:
            raise ValueError(f"{path}: expected a name such as 7_jackson_32.wav: digit, speaker, take")
        labels.append(match[1])
        take = int(match[2])
        splits.append("test" if take < TEST_TAKES else "valid" if take < TEST_TAKES + valid_takes else "train")
    names = tuple(path.name for path in files)
    return ClipList(tuple(files), names, str(folder), tuple(labels), tuple(splits))


def speech_commands(folder: Path, words: tuple[str, ...]) -> tuple[ClipList, tuple[str, ...]]:
    """The clips of some words, WORD/SPEAKER_nohash_K.wav, with their official splits if listed; and their speakers."""
    paths = [path for word in words for path in sorted((folder / word).glob("*.wav"))]
    for path in paths:
        if "_nohash_" not in path.stem:
            raise ValueError(f"{path}: expected a name such as 0a7c2a8d_nohash_0.wav: speaker, then a number")
    labels = tuple(path.parent.name for path in paths)
    speakers = tuple(path.stem.partition("_nohash_")[0] for path in paths)
    names = tuple(f"{path.parent.name}/{path.name}" for path in paths)
    lists = {"valid": folder / "validation_list.txt", "test": folder / "testing_list.txt"}
    splits = None
    if all(path.is_file() for path in lists.values()):
        split_of = {name: split for split, path in lists.items() for name in path.read_text().split()}
        splits = tuple(split_of.get(name, "train") for name in names)
    return ClipList(tuple(paths), names, str(folder), labels, splits), speakers
