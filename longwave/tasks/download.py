"""Public data sets: where they come from, and how they are fetched, unpacked and checked.

`DATASETS` is the registry. Below a data folder every set lies as its public archive unpacks, so a folder filled by hand
serves as well as one filled by `get`. Loaders call `require`, which reads no network.

Nothing half-written is ever taken for whole: a download goes to a name of its own, is verified, and then moved; an
archive is unpacked to a temporary folder, checked there, and moved into place as one.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import lzma
import os
import shlex
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, Literal, NamedTuple, Protocol

MAX_ENTRIES = 1_000_000  # files and folders in one archive; the largest set here has about 106,000
BLOCK = 1 << 18


class MissingData(FileNotFoundError):
    """A data set is not in the data folder. The message says what to put where."""


class DownloadError(OSError):
    """No source of a data set gave it. The message says what to put where by hand."""


class Refused(ValueError):
    """What came is not what was published, or is not safe to unpack."""


class Progress(Protocol):
    """Told what is going on: `start` a job with its size in bytes, if known, then `advance` by bytes."""

    def start(self, text: str, total: int | None) -> None:
        """Begin a job; the one before is over."""

    def advance(self, size: int) -> None:
        """So many bytes more are done."""


# What a check can look at. Each says whether anything is there (`present`), and what is wrong with it (`problem`).


@dataclass(frozen=True)
class File:
    """A file of known contents. Of a gzip file, size and digest are those of what it holds, and that alone will do."""

    path: str
    size: int | None = None
    digest: str | None = None  # "algorithm:hexadecimal"
    gzipped: bool = False

    def found(self, folder: Path) -> Path:
        """Where the file is, or should be: as it is published, or uncompressed."""
        path = folder / self.path
        plain = path.with_suffix("")
        return plain if self.gzipped and not path.is_file() and plain.is_file() else path

    def present(self, folder: Path) -> bool:
        """Whether the file is there."""
        return self.found(folder).is_file()

    def problem(self, folder: Path) -> str | None:
        """Compare size and digest."""
        path = self.found(folder)
        if not path.is_file():
            return f"{self.path} is missing"
        algorithm, _, expected = (self.digest or "sha256:").partition(":")
        digest, size = hashlib.new(algorithm), 0
        try:
            zipped = self.gzipped and path == folder / self.path
            with gzip.open(path) if zipped else open(path, "rb") as file:
                while (self.size is None or size <= self.size) and (block := file.read(BLOCK)):
                    digest.update(block)
                    size += len(block)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            return f"{self.path} is damaged: {error}"
        if self.size is not None and size != self.size:
            return f"{self.path} holds {'more' if size > self.size else f'{size:,}'} bytes, expected {self.size:,}"
        if expected and digest.hexdigest() != expected:
            return f"{self.path} has {algorithm} {digest.hexdigest()}, expected {expected}"
        return None


@dataclass(frozen=True)
class Table:
    """A CSV file known by its columns and its number of rows, for want of a published sum."""

    path: str
    columns: tuple[str, ...]
    rows: int

    def present(self, folder: Path) -> bool:
        """Whether the file is there."""
        return (folder / self.path).is_file()

    def problem(self, folder: Path) -> str | None:
        """Compare the heading, and the number of rows and cells."""
        path = folder / self.path
        if not path.is_file():
            return f"{self.path} is missing"
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            heading = tuple(file.readline(1 << 16).strip().split(","))
            if heading != self.columns:
                first, last = self.columns[0], self.columns[-1]
                return (
                    f"{self.path} does not begin with the {len(self.columns)} columns {first}, ..., {last}, "
                    f"but with {','.join(heading)[:60]!r}"
                )
            rows = 0
            for line in file:
                if line.strip():
                    rows += 1
                    if line.count(",") != len(heading) - 1:
                        return f"{self.path}: row {rows:,} has {line.count(',') + 1} cells, expected {len(heading)}"
        return None if rows == self.rows else f"{self.path} has {rows:,} rows, expected {self.rows:,}"


@dataclass(frozen=True)
class Folder:
    """A folder known by how many files in it match a pattern."""

    path: str
    pattern: str
    count: int

    def present(self, folder: Path) -> bool:
        """Whether there is at least one such file."""
        return any((folder / self.path).glob(self.pattern))

    def problem(self, folder: Path) -> str | None:
        """Count the files that are not empty."""
        if not (folder / self.path).is_dir():
            return f"{self.path}{os.sep} is missing"
        found = sum(1 for path in (folder / self.path).glob(self.pattern) if path.stat().st_size > 0)
        return None if found == self.count else f"{self.path} has {found:,} of {self.count:,} files {self.pattern}"


@dataclass(frozen=True)
class Source:
    """One file to download, and what becomes of it."""

    urls: tuple[str, ...]  # tried in this order
    target: str  # below the data folder: the file, or the folder that the archive unpacks to
    size: int  # bytes to download, about
    sha256: str | None  # of the downloaded file; None: not known to us, so that what came is checked by its contents
    archive: str | None = None  # the name of the archive; None: the file is used as it comes
    inside: str = "."  # of an archive: its folder that becomes the target
    limit: int = 0  # of an archive: bytes it may unpack to

    @property
    def saved(self) -> str:
        """The name under which the download is kept."""
        return self.archive or self.target.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Dataset:
    """A public data set."""

    title: str
    licence: str
    path: str  # what a loader is given, below the data folder
    sources: tuple[Source, ...]
    checks: tuple[File | Table | Folder, ...]

    @property
    def size(self) -> int:
        """Bytes to download, about."""
        return sum(source.size for source in self.sources)

    @property
    def verified_by(self) -> str:
        """How a download is verified before it is used."""
        known = all(source.sha256 is not None for source in self.sources)
        return "sha256" if known else "contents (sum not known)"


def _mnist() -> Dataset:
    hosts = ("https://ossci-datasets.s3.amazonaws.com/mnist", "https://storage.googleapis.com/cvdf-datasets/mnist")
    files = (  # name, bytes and sha256 of the .gz; bytes and sha256 of the IDX file in it
        (
            "train-images-idx3-ubyte.gz",
            9_912_422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            47_040_016,
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        (
            "train-labels-idx1-ubyte.gz",
            28_881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            60_008,
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        (
            "t10k-images-idx3-ubyte.gz",
            1_648_877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            7_840_016,
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        (
            "t10k-labels-idx1-ubyte.gz",
            4_542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            10_008,
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    )
    return Dataset(
        "MNIST: 70,000 handwritten digits",
        "CC BY-SA 3.0",
        "mnist",
        tuple(
            Source(tuple(f"{h}/{name}" for h in hosts), f"mnist/{name}", size, sha) for name, size, sha, _, _ in files
        ),
        # By what is in them: copies that were compressed anew are as good.
        tuple(File(f"mnist/{name}", size, f"sha256:{sha}", gzipped=True) for name, _, _, size, sha in files),
    )


def _cifar10() -> Dataset:
    folder = "cifar-10-batches-bin"
    batches = {
        "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    }
    source = Source(
        ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
        folder,
        170_052_171,
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        archive="cifar-10-binary.tar.gz",
        inside=folder,
        limit=400_000_000,
    )
    checks = tuple(File(f"{folder}/{name}", 30_730_000, f"sha256:{sha}") for name, sha in batches.items())
    return Dataset("CIFAR-10: 60,000 colour images, binary version", "none stated", folder, (source,), checks)


def _ett(name: str, title: str, size: int, sha256: str) -> Dataset:
    path = f"ETT-small/{name}.csv"
    source = Source((f"https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/{path}",), path, size, sha256)
    return Dataset(title, "CC BY-ND 4.0", path, (source,), (File(path, size, f"sha256:{sha256}"),))


def _informer(
    name: str, title: str, licence: str, drive_id: str, size: int, columns: tuple[str, ...], rows: int
) -> Dataset:
    """The two tables that Informer's authors prepared; the second address is a mirror of the PaddleTS project."""
    urls = (
        f"https://drive.google.com/uc?export=download&id={drive_id}",
        f"https://bj.bcebos.com/paddlets/{name}.csv",
    )
    path = f"informer/{name}.csv"
    return Dataset(title, licence, path, (Source(urls, path, size, None),), (Table(path, columns, rows),))


def _wikitext(
    name: str, size: int, sha256: str, limit: int, parts: tuple[tuple[str, int | None, str | None], ...]
) -> Dataset:
    urls = tuple(
        f"{host}/{name}-v1.zip"
        for host in ("https://wikitext.smerity.com", "https://s3.amazonaws.com/research.metamind.io/wikitext")
    )
    source = Source(urls, name, size, sha256, f"{name}-v1.zip", inside=name, limit=limit)
    checks = tuple(File(f"{name}/wiki.{part}.tokens", size, digest) for part, size, digest in parts)
    title = name.replace("wikitext", "WikiText") + ": Wikipedia articles, words"
    return Dataset(title, "CC BY-SA", name, (source,), checks)


def _imdb() -> Dataset:
    source = Source(
        ("https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",),
        "aclImdb",
        84_125_825,
        "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        archive="aclImdb_v1.tar.gz",
        inside="aclImdb",
        limit=1_000_000_000,
    )
    parts = (f"aclImdb/{split}/{label}" for split in ("train", "test") for label in ("neg", "pos"))
    checks = tuple(Folder(part, "*_*.txt", 12_500) for part in parts)
    return Dataset("IMDB: 50,000 labelled film reviews", "none stated", "aclImdb", (source,), checks)


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


# Sums of archives are those that several public projects record in agreement; sums of what they hold were computed from
# copies of the files. Where neither was to be had, the sum is None.
DATASETS: dict[str, Dataset] = {
    "mnist": _mnist(),
    "cifar10": _cifar10(),
    "etth1": _ett(
        "ETTh1",
        "ETTh1: transformer temperature, hourly",
        2_589_657,
        "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066",
    ),
    "etth2": _ett(
        "ETTh2",
        "ETTh2: transformer temperature, hourly",
        2_417_960,
        "a3dc2c597b9218c7ce1cd55eb77b283fd459a1d09d753063f944967dd6b9218b",
    ),
    "ettm1": _ett(
        "ETTm1",
        "ETTm1: transformer temperature, 15 minutes",
        10_360_719,
        "6ce1759b1a18e3328421d5d75fadcb316c449fcd7cec32820c8dafda71986c9e",
    ),
    "weather": _informer(
        "WTH",
        "Weather (Informer): 12 measurements, hourly",
        "NOAA observations",
        "1UBRz-aM_57i_KCC-iaSWoKDPTGGv6EaG",
        2_100_000,
        # The misspelling is the file's.
        (
            "date",
            "Visibility",
            "DryBulbFarenheit",
            "DryBulbCelsius",
            "WetBulbFarenheit",
            "DewPointFarenheit",
            "DewPointCelsius",
            "RelativeHumidity",
            "WindSpeed",
            "WindDirection",
            "StationPressure",
            "Altimeter",
            "WetBulbCelsius",
        ),
        35_064,
    ),
    "ecl": _informer(
        "ECL",
        "ECL (Informer): electricity of 321 clients, hourly",
        "CC BY 4.0 (UCI)",
        "1rUPdR7R2iWFW-LMoDdHoO2g4KgnkpFzP",
        95_600_000,
        ("date", *(f"MT_{client:03d}" for client in range(321))),
        26_304,
    ),
    "wikitext2": _wikitext(
        "wikitext-2",
        4_475_746,
        "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
        50_000_000,
        (
            ("train", 10_797_148, None),  # by size: copies circulate that hold its articles in another order
            ("valid", 1_121_681, "sha256:f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8"),
            ("test", 1_256_449, "sha256:d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0"),
        ),
    ),
    "wikitext103": _wikitext(
        "wikitext-103",
        190_229_076,
        "242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590",
        1_000_000_000,
        (
            ("train", None, "sha1:b7497e2dfe77e72cfef5e3dbc61b7b53712ac211"),
            ("valid", None, "sha1:c326ac59dc587676d58c422eb8a03e119582f92b"),
            ("test", None, "sha1:8a5befc548865cec54ed4273cf87dbbad60d1e47"),
        ),
    ),
    "imdb": _imdb(),
    "speech-commands": _speech_commands(),
    "fsdd": _fsdd(),
}


def find(name: str) -> Dataset:
    """The data set of this name; an unknown one is refused with the nearest right one."""
    if name in DATASETS:
        return DATASETS[name]
    near = difflib.get_close_matches(name.lower(), DATASETS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(DATASETS)}"
    raise ValueError(f"no data set {name!r}; {hint}")


def data_dir(explicit: Path | None = None) -> Path:
    """The data folder: the argument, else LONGWAVE_DATA, else `longwave` in the user's cache."""
    if explicit is not None:
        return Path(explicit).expanduser()
    if named := os.environ.get("LONGWAVE_DATA"):
        return Path(named).expanduser()
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))  # by its specification, to be ignored unless absolute
    return (cache if cache.is_absolute() else Path.home() / ".cache") / "longwave"


class Report(NamedTuple):
    """What `check` found."""

    state: Literal["good", "missing", "wrong"]
    problems: tuple[str, ...]


def check(name: str, folder: Path) -> Report:
    """Compare what is in the data folder with what was published."""
    dataset = find(name)
    problems = tuple(problem for part in dataset.checks if (problem := part.problem(folder)) is not None)
    if not problems:
        return Report("good", ())
    return Report("wrong" if any(part.present(folder) for part in dataset.checks) else "missing", problems)


def require(name: str, folder: Path | None = None) -> Path:
    """The path to a data set's files, for loaders; MissingData if a part is not there at all. Reads no contents."""
    dataset, where = find(name), data_dir(folder)
    missing = [part.path for part in dataset.checks if not part.present(where)]
    if not missing:
        return where / dataset.path
    names = ", ".join(missing)
    wanted = [source for source in dataset.sources if any(_covers(source, path) for path in missing)]
    raise MissingData(
        f"data set {name!r} is not complete: {where} has no {names}\n"
        f"Run `{_command(name, where)}`, or place it by hand:\n{_by_hand(name, wanted, where)}\n"
        "Another data folder can be named with --data-dir or LONGWAVE_DATA."
    )


def get(name: str, folder: Path, progress: Progress | None = None) -> Path:
    """Download and unpack a data set, unless it is there; the path to its files.

    What is there and good is left as it is; what is there and not good is never overwritten.
    """
    dataset = find(name)
    folder = Path(folder).absolute()
    wanted = [source for source in dataset.sources if not _is_there(dataset, source, folder)]
    for source in dataset.sources:
        if source not in wanted and (problems := _problems(dataset, source, folder)):
            raise ValueError(
                f"{folder / source.target} is there, but is not what was published: {'; '.join(problems)}. "
                f"Move it away, then run `{_command(name, folder)}` again"
            )
    for source in wanted:
        _obtain(name, source, folder, progress or _Silent())
    return folder / dataset.path


def _obtain(name: str, source: Source, folder: Path, progress: Progress) -> None:
    """Try each address until one gives what was published."""
    downloads = folder / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    saved, reasons = downloads / source.saved, []
    for url in source.urls:
        try:
            _fetch(url, source, downloads, progress)
            _place(find(name), source, saved, folder, progress)
            return
        except _Unreachable as error:
            reasons.append(f"  {url}\n    {error}")
        except Refused as error:
            saved.unlink(missing_ok=True)  # or the next attempt would find it in the cache
            reasons.append(f"  {url}\n    {error}")
    raise DownloadError(
        f"data set {name!r} could not be downloaded:\n" + "\n".join(reasons) + "\n"
        f"Check the connection and run `{_command(name, folder)}` again, or place it by hand:\n"
        + _by_hand(name, [source], folder)
    )


def _by_hand(name: str, sources: list[Source], folder: Path) -> str:
    lines = []
    for source in sources:
        lines.append(f"  download {source.urls[0]}")
        lines += [f"        or {url}" for url in source.urls[1:]]
        if source.archive is None:
            lines.append(f"        to {folder / source.target}")
            continue
        example = next((part.path for part in find(name).checks if _covers(source, part.path)), source.target)
        lines.append(f"        to {folder / 'downloads' / source.saved}")
        lines.append(f"  and run `{_command(name, folder)}`, which unpacks it, or unpack it yourself so that")
        lines.append(f"           {folder / example} is there")
    return "\n".join(lines)


def _command(name: str, folder: Path) -> str:
    elsewhere = "" if folder.absolute() == data_dir().absolute() else f" --data-dir {shlex.quote(str(folder))}"
    return f"longwave data get {name}{elsewhere}"


def _covers(source: Source, path: str) -> bool:
    return path == source.target or path.startswith(f"{source.target}/")


def _is_there(dataset: Dataset, source: Source, folder: Path) -> bool:
    parts = (part for part in dataset.checks if _covers(source, part.path))
    return os.path.lexists(folder / source.target) or any(part.present(folder) for part in parts)


def _problems(dataset: Dataset, source: Source, folder: Path) -> list[str]:
    found = (part.problem(folder) for part in dataset.checks if _covers(source, part.path))
    return [problem for problem in found if problem is not None]


# Downloading.


class _Unreachable(OSError):
    """One address did not answer, or not to the end."""


class _Silent:
    def start(self, text: str, total: int | None) -> None:
        pass

    def advance(self, size: int) -> None:
        pass


def _fetch(url: str, source: Source, downloads: Path, progress: Progress) -> None:
    """Bring a file into the folder of downloads, unless it is there already with the right sum."""
    import pooch  # type: ignore[import-untyped]
    import requests
    import urllib3

    part = downloads / f"{source.saved}.part"
    resumed = part.exists()

    def download(url: str, output: str | os.PathLike[str], _: Any) -> None:
        _stream(url, source, part, progress)
        os.replace(part, output)

    known = None if source.sha256 is None else f"sha256:{source.sha256}"
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")  # the progress display says the same
    try:
        pooch.retrieve(url, known, fname=source.saved, path=downloads, downloader=download)
    except requests.HTTPError as error:
        raise _Unreachable(f"the server answered {str(error).partition(' for url')[0]}") from error
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        cause: BaseException = error
        while cause.__context__ is not None:
            cause = cause.__context__
        raise _Unreachable(f"{type(error).__name__}: {cause}") from error
    except Refused:
        raise
    except ValueError as error:  # by pooch
        if resumed:  # perhaps the part was of another file; it is gone now
            return _fetch(url, source, downloads, progress)
        raise Refused(f"what came does not have sha256 {source.sha256}, so it is not used") from error
    finally:
        logger.setLevel(level)


def _stream(url: str, source: Source, part: Path, progress: Progress) -> None:
    """Download to `part`. If the sum is known, go on where an interrupted download stopped: any mix-up will show."""
    import requests

    most = 2 * source.size + 1_000_000
    start = part.stat().st_size if source.sha256 is not None and part.is_file() else 0
    headers = {"User-Agent": "longwave", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    with requests.get(url, headers=headers, stream=True, timeout=30) as response:
        continued = response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        if start and (response.status_code == 416 or (response.status_code == 206 and not continued)):
            part.unlink()  # the part is not the beginning of this file
            return _stream(url, source, part, progress)
        response.raise_for_status()
        if response.status_code != 206:
            start = 0
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdecimal() else None
        progress.start(f"downloading {source.saved}", total)
        progress.advance(start)
        received = start
        with open(part, "ab" if start else "wb") as file:
            for block in response.raw.stream(BLOCK, decode_content=False):
                file.write(block)
                received += len(block)
                progress.advance(len(block))
                if received > most:
                    break
    if received > most:
        part.unlink()
        raise Refused(f"more than {most:,} bytes came, expected about {source.size:,}")
    if total is not None and received != total:
        raise _Unreachable(f"the connection ended after {received:,} of {total:,} bytes")


def _place(dataset: Dataset, source: Source, saved: Path, folder: Path, progress: Progress) -> None:
    """Unpack what was downloaded beside its place, check it there, and move it into place as one."""
    with tempfile.TemporaryDirectory(prefix="unpacking-", dir=saved.parent) as temporary:
        ready = Path(temporary) / "ready" / source.target
        ready.parent.mkdir(parents=True)
        if source.archive is None:
            os.replace(saved, ready)
        else:
            unpacked = Path(temporary) / "unpacked"
            unpack(saved, unpacked, source.limit, progress)
            if not (unpacked / source.inside).is_dir():
                raise Refused(f"{saved.name} has no folder {source.inside}")
            os.replace(unpacked / source.inside, ready)
        if problems := _problems(dataset, source, Path(temporary) / "ready"):
            raise Refused(f"what came is not what was published: {'; '.join(problems)}")
        target = folder / source.target
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.replace(ready, target)
        except OSError:
            if _problems(dataset, source, folder):  # else another process was faster
                raise


# Unpacking.


class _Entry(NamedTuple):
    path: PurePosixPath  # cannot lead out of the folder that it is joined to
    size: int | None  # None: a folder
    open: Callable[[], IO[bytes] | None]


def unpack(archive: Path, folder: Path, limit: int, progress: Progress | None = None) -> None:
    """Unpack a zip or tar file into a new folder.

    Everything is looked at before anything is written: an archive is refused if a name leads out of the folder, if it
    holds anything but files and folders (no data set needs a link), or if its sizes add up to more than `limit` bytes.
    """
    progress = progress or _Silent()
    try:
        with _entries(archive) as entries:
            wanted: list[_Entry] = []
            total = 0
            for entry in entries:
                total += entry.size or 0
                if total > limit or len(wanted) >= MAX_ENTRIES:
                    raise Refused(f"{archive.name} would unpack to more than {limit:,} bytes or {MAX_ENTRIES:,} files")
                wanted.append(entry)
            progress.start(f"unpacking {archive.name}", total)
            folder.mkdir(parents=True)
            for entry in wanted:
                target = folder / entry.path
                if entry.size is None:
                    target.mkdir(parents=True, exist_ok=True)
                else:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    _write(entry, entry.size, target, progress)
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise Refused(f"{archive.name} is damaged: {error}") from error
    except (tarfile.TarError, zipfile.BadZipFile, RuntimeError) as error:  # RuntimeError: encrypted, unknown method
        raise Refused(f"{archive.name} cannot be unpacked: {error}") from error


def _inner_path(name: str, archive: Path) -> PurePosixPath:
    path = PureWindowsPath(name)  # knows both separators, and drives
    if path.anchor or ".." in path.parts or "\0" in name:
        raise Refused(f"{archive.name} is not safe to unpack: {name!r} leads out of the folder")
    return PurePosixPath(name)


def _write(entry: _Entry, size: int, target: Path, progress: Progress) -> None:
    content = entry.open()
    if content is None:
        raise Refused(f"{entry.path} has no contents")
    left = size
    with content, open(target, "wb") as file:
        while left >= 0 and (block := content.read(BLOCK)):
            file.write(block)
            left -= len(block)
            progress.advance(len(block))
    if left != 0:
        raise Refused(f"{entry.path} is not as long as the archive says")


@contextmanager
def _entries(archive: Path) -> Iterator[Iterator[_Entry]]:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as opened_zip:
            yield _zip_entries(opened_zip, archive)
    else:
        with tarfile.open(archive) as opened_tar:
            yield _tar_entries(opened_tar, archive)


def _zip_entries(opened: zipfile.ZipFile, archive: Path) -> Iterator[_Entry]:
    for info in opened.infolist():
        path = _inner_path(info.filename, archive)
        kind = stat.S_IFMT(info.external_attr >> 16)  # 0 if the archive was made where files have no such mode
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise Refused(f"{archive.name} is not safe to unpack: {info.filename!r} is neither a file nor a folder")
        yield _Entry(path, None if info.is_dir() else info.file_size, partial(opened.open, info))


def _tar_entries(opened: tarfile.TarFile, archive: Path) -> Iterator[_Entry]:
    for member in opened:
        path = _inner_path(member.name, archive)
        if not (member.isreg() or member.isdir()):
            raise Refused(f"{archive.name} is not safe to unpack: {member.name!r} is neither a file nor a folder")
        if hasattr(tarfile, "data_filter"):  # since 3.11.4: a second opinion
            tarfile.data_filter(member, str(archive.parent))
        yield _Entry(path, None if member.isdir() else member.size, partial(opened.extractfile, member))
    # The sum of a compressed stream is compared at its end, beyond where a tar file says that it ends.
    left = 1 << 26
    while left > 0 and opened.fileobj is not None and (block := opened.fileobj.read(BLOCK)):
        left -= len(block)
    if left <= 0:
        raise Refused(f"{archive.name} goes on after its end")
