"""Atomic writes: the old content or the new one, whatever happens between."""

import json
import os
import stat
import subprocess
import sys
import textwrap

import pytest

from longwave.core import files


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_new_content_replaces_the_old_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with files.atomic(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["x"]


@pytest.mark.parametrize("before", [None, b"old"])
@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_folder_as_it_was(tmp_path, before, failure):
    path = tmp_path / "x"
    if before is not None:
        path.write_bytes(before)

    def write_half():
        with files.atomic(path) as file:
            file.write(b"half of the new con")
            raise failure

    with pytest.raises(failure):
        write_half()
    assert names(tmp_path) == ([] if before is None else ["x"])
    assert before is None or path.read_bytes() == before


@pytest.mark.parametrize("before", [None, b"old"])
@pytest.mark.parametrize("stop", ["os.fsync", "os.replace"])
def test_a_process_killed_before_the_rename_leaves_the_old_content(tmp_path, before, stop):
    path = tmp_path / "x"
    if before is not None:
        path.write_bytes(before)
    script = f"""
        import os, signal
        from pathlib import Path
        from longwave.core import files
        {stop} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        files.write_bytes(Path({str(path)!r}), b"new")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], timeout=60)
    assert done.returncode == -9
    assert (path.read_bytes() if path.exists() else None) == before
    files.write_bytes(path, b"newer")  # what the killed process left is not in the way
    assert path.read_bytes() == b"newer"
    assert names(tmp_path) == ["x"]


def test_the_file_is_on_disk_before_the_rename_and_the_folder_after_it(tmp_path, monkeypatch):
    done, fsync, replace = [], os.fsync, os.replace

    def see_fsync(handle):
        done.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else os.fstat(handle).st_size)
        fsync(handle)

    def see_replace(source, target):
        done.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", see_fsync)
    monkeypatch.setattr(os, "replace", see_replace)
    files.write_bytes(tmp_path / "x", b"12345")
    assert done == [5, "rename", "folder"]


def test_a_folder_is_refused_before_anything_is_written(tmp_path):
    (tmp_path / "x").mkdir()
    with pytest.raises(ValueError, match="expected the name of a file to write, got a folder"):
        files.write_bytes(tmp_path / "x", b"new")
    assert names(tmp_path) == ["x"]


def test_permissions_follow_the_umask(tmp_path):
    files.write_bytes(tmp_path / "x", b"new")
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o666 & ~umask


def test_text_is_utf8_and_json_reads_back(tmp_path):
    files.write_text(tmp_path / "t", "café \udcff\n")
    assert (tmp_path / "t").read_bytes() == "café ?\n".encode()
    content = {"a": [1, 2.5, None], "b": "é"}
    files.write_json(tmp_path / "j", content)
    assert json.loads((tmp_path / "j").read_text()) == content
