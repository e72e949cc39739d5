"""Downloading data sets, and moving them into place once verified.

Nothing incomplete is ever used: a download has a temporary name until its checksum is verified, and an archive is
unpacked in a temporary folder, checked there, and renamed.
"""

import hashlib
import os
import tempfile
import time
from pathlib import Path

from longwave.core import files
from longwave.core.progress import SILENT, Progress
from longwave.core.terminal import with_command
from longwave.io.download import catalogue
from longwave.io.download.archive import BLOCK, Refused, unpack
from longwave.io.download.catalogue import DATASETS, Dataset, Source

PATIENCE, LEAST_SPEED = 60.0, 500  # seconds, and bytes per second over that time


class DownloadError(OSError):
    """All URLs of a data set failed; the message says how to place it by hand."""


def get(name: str, folder: str | Path, progress: Progress = SILENT) -> Path:
    """Download and unpack a data set; existing files are checked, and never overwritten. Returns the path to them."""
    dataset = DATASETS.find(name)
    folder = Path(folder).absolute()

    def is_there(source: Source) -> bool:
        checks = (check for check in dataset.checks if source.provides(check))
        return os.path.lexists(folder / source.target) or any(check.present(folder) for check in checks)

    wanted = [source for source in dataset.sources if not is_there(source)]
    for source in dataset.sources:
        if source not in wanted and (problems := dataset.problems(folder, source)):
            raise ValueError(
                f"{folder / source.target} exists, but differs from the published version: {'; '.join(problems)}. "
                + with_command("Move it away, then run", catalogue.command("get", name, folder))
            )
    for source in wanted:
        _obtain(name, source, folder, progress)
    return folder / dataset.path


def _obtain(name: str, source: Source, folder: Path, progress: Progress) -> None:
    """Try each URL until one serves the published file."""
    downloads = folder / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    saved, reasons = downloads / source.saved, []
    for url in source.urls:
        try:
            _fetch(url, source, downloads, progress)
            _place(DATASETS.find(name), source, saved, folder, progress)
            return
        except (_Unreachable, Refused) as error:
            if isinstance(error, Refused):
                saved.unlink(missing_ok=True)  # or the next attempt would find it in the cache
            reasons.append(f"  {url}\n    {error}")
    raise DownloadError(
        f"data set {name!r} could not be downloaded:\n"
        + "\n".join(reasons)
        + "\n"
        + with_command("Check the connection and run", catalogue.command("get", name, folder))
        + "\nor place it by hand:\n"
        + catalogue.by_hand(name, [source], folder)
    )


class _Unreachable(OSError):
    """A URL did not respond, or the connection broke."""


def _fetch(url: str, source: Source, downloads: Path, progress: Progress) -> None:
    """Download a file to the downloads folder, unless it is there already with the right checksum."""
    import requests
    import urllib3

    saved, part = downloads / source.saved, downloads / f"{source.saved}.part"
    if saved.exists() and _is_published(saved, source):
        return
    resumed = part.exists()
    try:
        _stream(url, source, part, progress)
    except requests.HTTPError as error:
        raise _Unreachable(f"the server answered {str(error).partition(' for url')[0]}") from error
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        cause: BaseException = error
        while cause.__context__ is not None:
            cause = cause.__context__
        raise _Unreachable(f"{type(error).__name__}: {cause}") from error
    if _is_published(part, source):
        os.replace(part, saved)
        return
    part.unlink()
    if not resumed:
        raise Refused(f"the download does not have sha256 {source.sha256}, so it is not used")
    _fetch(url, source, downloads, progress)  # from the beginning: the partial download may have been of another file


def _is_published(path: Path, source: Source) -> bool:
    """Whether a download has the published checksum, if there is one."""
    if source.sha256 is None:
        return True
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == source.sha256


def _stream(url: str, source: Source, part: Path, progress: Progress) -> None:
    """Download to `part`; an interrupted download is resumed if a known checksum can verify the result.

    This is not `files.atomic`: the incomplete file has a fixed name and stays, for the next attempt to resume.
    """
    import requests

    most = 2 * source.size + 1_000_000
    start = part.stat().st_size if source.sha256 is not None and part.is_file() else 0
    headers = {"User-Agent": "longwave", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    with requests.get(url, headers=headers, stream=True, timeout=30) as response:
        continued = response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        if start and (response.status_code == 416 or (response.status_code == 206 and not continued)):
            part.unlink()  # it is not the beginning of this file
            return _stream(url, source, part, progress)
        response.raise_for_status()
        if response.status_code != 206:
            start = 0
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdecimal() else None
        progress.start(f"downloading {source.saved}", total)
        progress.advance(start)
        received = start
        with files.naming(part), open(part, "ab" if start else "wb") as file:
            since, recent = time.monotonic(), 0
            while block := response.raw.read1(BLOCK, decode_content=False):  # what there is, without waiting for more
                file.write(block)
                received, recent = received + len(block), recent + len(block)
                if (seconds := time.monotonic() - since) >= PATIENCE:  # or a slow download might never end
                    if recent < LEAST_SPEED * seconds:
                        raise _Unreachable(f"too slow: {recent:,} bytes in {seconds:.0f} seconds")
                    since, recent = time.monotonic(), 0
                progress.advance(len(block))
                if received > most:
                    break
            file.flush()
            os.fsync(file.fileno())
    if received > most:
        part.unlink()
        raise Refused(f"got more than {most:,} bytes, expected about {source.size:,}")
    if total is not None and received != total:
        raise _Unreachable(f"the connection ended after {received:,} of {total:,} bytes")


def _place(dataset: Dataset, source: Source, saved: Path, folder: Path, progress: Progress) -> None:
    """Unpack a download in a temporary folder, check it there, and move it into place.

    The unpacked files are not synced one by one, which takes minutes for 100,000 of them: after a power failure `check`
    finds what was lost, and the archive is still there.
    """
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
        try:
            problems = dataset.problems(Path(temporary) / "ready", source)
        except (NotADirectoryError, IsADirectoryError) as error:
            problems = [f"{error.filename}: a file where a folder should be, or vice versa"]
        if problems:
            raise Refused(f"the download differs from the published version: {'; '.join(problems)}")
        target = folder / source.target
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.replace(ready, target)
        except OSError:
            if dataset.problems(folder, source):  # else another process was faster
                raise
        files.sync_folder(target.parent)
