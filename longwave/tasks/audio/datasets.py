"""Spoken words and digits."""

from longwave.io.download.catalogue import DATASETS, Dataset, Folder, Source


def _speech_commands() -> Dataset:
    folder = "speech_commands_v0.02"
    source = Source(
        (
            f"https://storage.googleapis.com/download.tensorflow.org/data/{folder}.tar.gz",
            f"http://download.tensorflow.org/data/{folder}.tar.gz",
        ),
        folder,
        2_428_923_189,
        "af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58",
        archive=f"{folder}.tar.gz",
        limit=6_000_000_000,
    )
    checks = (Folder(folder, "[a-z]*/*_nohash_*.wav", 105_829),)
    return Dataset("Speech Commands v0.02: 35 spoken words", "CC BY 4.0", folder, (source,), checks)


def _fsdd() -> Dataset:
    folder, version = "free-spoken-digit-dataset", "1.0.10"
    source = Source(
        (f"https://github.com/Jakobovski/{folder}/archive/refs/tags/v{version}.tar.gz",),
        folder,
        16_400_000,
        None,
        archive=f"{folder}-{version}.tar.gz",
        inside=f"{folder}-{version}",
        limit=500_000_000,
    )
    checks = (Folder(f"{folder}/recordings", "[0-9]_*_*.wav", 3_000),)
    return Dataset("FSDD: 3,000 spoken digits, 6 speakers", "CC BY-SA 4.0", folder, (source,), checks)


DATASETS.register("speech-commands")(_speech_commands())
DATASETS.register("fsdd")(_fsdd())
