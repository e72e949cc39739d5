"""Archives that are not safe, or damaged, are refused."""

import gzip
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from tiny_set import CONTENTS, pack_tar, pack_zip

from longwave.io.download import archive
from longwave.io.download.archive import Refused, unpack


def link(name, kind, to):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    return info


def unix(name, mode):
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info


TRAVERSALS = ["../evil", "tiny/../../evil", "/tmp/evil", "..\\evil", "C:\\evil", "C:evil", "\\\\host\\share\\evil"]
UNSAFE = {
    **{f"tar {name}": ("a.tar.gz", pack_tar({**CONTENTS, name: b"evil"})) for name in TRAVERSALS},
    **{f"zip {name}": ("a.zip", pack_zip({**CONTENTS, name: b"evil"})) for name in TRAVERSALS},
    "tar symlink out": ("a.tar.gz", pack_tar(extra=[link("tiny/out", tarfile.SYMTYPE, "../..")])),
    "tar symlink, then a file through it": (
        "a.tar.gz",
        pack_tar({}, extra=[link("out", tarfile.SYMTYPE, "/tmp"), tarfile.TarInfo("out/evil")]),
    ),
    "tar hardlink out": ("a.tar.gz", pack_tar(extra=[link("tiny/out", tarfile.LNKTYPE, "../../secret")])),
    "tar device": ("a.tar.gz", pack_tar(extra=[link("tiny/null", tarfile.CHRTYPE, "")])),
    "tar fifo": ("a.tar.gz", pack_tar(extra=[link("tiny/pipe", tarfile.FIFOTYPE, "")])),
    "zip symlink out": ("a.zip", pack_zip(extra=[(unix("tiny/out", stat.S_IFLNK | 0o777), "../..")])),
    "zip device": ("a.zip", pack_zip(extra=[(unix("tiny/null", stat.S_IFCHR | 0o666), "")])),
    "tar too large": ("a.tar.gz", pack_tar({**CONTENTS, "tiny/zeros": bytes(2_000_000)})),
    "zip too large": ("a.zip", pack_zip({**CONTENTS, "tiny/zeros": bytes(2_000_000)})),
}


@pytest.mark.parametrize("case", UNSAFE)
def test_an_unsafe_archive_is_refused_before_anything_is_written(tmp_path, case):
    name, body = UNSAFE[case]
    archive = tmp_path / "in" / "deep" / name
    archive.parent.mkdir(parents=True)
    archive.write_bytes(body)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(Refused):
        unpack(archive, archive.parent / "out", limit=1_000_000)
    assert sorted(tmp_path.rglob("*")) == before
    assert not Path("/tmp/evil").exists()


def test_a_tar_file_that_declares_a_huge_member_is_refused_without_reading_it(tmp_path):
    info = tarfile.TarInfo("zeros")
    info.size = 10**15
    archive = tmp_path / "a.tar"
    archive.write_bytes(info.tobuf())
    with pytest.raises(Refused, match="would unpack to more than"):
        unpack(archive, tmp_path / "out", limit=10**9)


def test_a_tar_file_that_goes_on_after_its_end_is_refused(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(pack_tar(mode="w") + bytes(70_000_000), 1))
    with pytest.raises(Refused, match="has data after its end"):
        unpack(tmp_path / "a.tar.gz", tmp_path / "out", limit=10**9)


def test_too_many_entries_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_ENTRIES", 1)
    (tmp_path / "a.tar.gz").write_bytes(pack_tar())
    with pytest.raises(Refused, match="1 files"):
        unpack(tmp_path / "a.tar.gz", tmp_path / "out", limit=10**9)


@pytest.mark.parametrize("name", ["a.tar.gz", "a.zip"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text"])
def test_a_damaged_archive_is_refused(tmp_path, name, damage):
    body = (pack_zip if name == "a.zip" else pack_tar)({"tiny/random": os.urandom(5000)})
    middle = len(body) // 2
    flipped = body[:middle] + bytes([body[middle] ^ 255]) + body[middle + 1 :]
    damaged = {"cut": body[:middle], "flipped": flipped, "empty": b"", "text": b"<html></html>"}[damage]
    (tmp_path / name).write_bytes(damaged)
    with pytest.raises(Refused):
        unpack(tmp_path / name, tmp_path / "out", limit=10**9)


@pytest.mark.parametrize("contents", [{"x": b"1", "x/y": b"2"}, {"x/y": b"2", "x": b"1"}])
@pytest.mark.parametrize(("name", "pack"), [("a.tar.gz", pack_tar), ("a.zip", pack_zip)])
def test_an_entry_that_is_both_a_file_and_a_folder_is_refused(tmp_path, contents, name, pack):
    (tmp_path / name).write_bytes(pack(contents))
    with pytest.raises(Refused, match="is both a file and a folder in the archive"):
        unpack(tmp_path / name, tmp_path / "out", limit=1000)
