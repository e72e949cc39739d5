"""The film reviews of IMDB in miniature, in the layout of the published archive; ListOps as it is made."""

from pathlib import Path

from longwave.io.download import making

WORDS = {"neg": "a dull and <br />bad film", "pos": "a good, lively film"}


def write_reviews(data: Path, count: int = 12) -> Path:
    """Reviews of unequal length that say what they think, `count` of each class of each split."""
    folder = data / "aclImdb"
    for split in ("train", "test"):
        for name, words in WORDS.items():
            (folder / split / name).mkdir(parents=True)
            for k in range(count):
                text = " ".join([words] * (1 + k % 4)) + "\u0085" * (k % 2)
                (folder / split / name / f"{k}_{k % 5}.txt").write_bytes(text.encode())
    return folder


def write_listops(data: Path, count: int = 200) -> Path:
    """ListOps with all ten labels to train on."""
    return making.make("listops", data, count)
