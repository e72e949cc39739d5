"""Pairs of documents in miniature, in the format of the Long Range Arena's Retrieval; and a small model of pairs."""

import dataclasses
from pathlib import Path

from mixer_settings import sequence_config

from longwave.io.download import making
from longwave.models import PairConfig
from longwave.tasks.pairs import retrieval

TEXTS = ("on parsing \u00e9 trees", "on tagging\nwords", 'a "quoted" text, it\'s long ' * 3, "b")


def line(label: float, first: str, second: str) -> bytes:
    """A pair as the published files have it."""
    columns = (str(label), "P01-1001", "P02-1002", repr(first.encode()), repr(second.encode()))
    return "\t".join(columns).encode() + b"\n"


def write_aan(data: Path, count: int = 24) -> Path:
    """Pairs of four documents: related are those with themselves."""
    folder = data / retrieval.FOLDER
    folder.mkdir(parents=True)
    for name in retrieval.FILES.values():
        pairs = [(TEXTS[k % 4], TEXTS[(k + (k // 4) % 2) % 4]) for k in range(count)]
        (folder / name).write_bytes(b"".join(line(float(a == b), a, b) for a, b in pairs))
    return folder


def write_synthetic(data: Path, count: int = 60) -> Path:
    """The synthetic stand-in, as it is made."""
    return making.make("retrieval-synthetic", data, count)


def pair_config(**settings) -> PairConfig:
    """A small model of pairs."""
    small = sequence_config(**{"d_model": 6, "n_layers": 2, "norm": "batch", "bidirectional": True, **settings})
    return PairConfig(**{field.name: getattr(small, field.name) for field in dataclasses.fields(small)})
