"""Downloads, against a server on this machine; nothing here reaches the internet."""

import gzip
import hashlib
import io
import os
import socket
import stat
import subprocess
import sys
import tarfile
import textwrap
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from longwave.cli import main as cli
from longwave.tasks import download
from longwave.tasks.download import DATASETS, Dataset, DownloadError, File, Folder, MissingData, Refused, Source, Table

REAL = os.environ.get("LONGWAVE_DATA")
CONTENTS = {"tiny/a.txt": b"first " * 1000, "tiny/sub/b.txt": b"second"}


class Server(ThreadingHTTPServer):
    """Serves `files`, and misbehaves as told: by path, a status, a number of bytes to stop after, or no ranges."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.status, self.stop_after = {}, {}, {}
        self.ranges = True
        self.requests = []

    def url(self, path):
        return f"http://127.0.0.1:{self.server_port}/{path}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        path = self.path.lstrip("/")
        self.server.requests.append((path, self.headers.get("Range")))
        body = self.server.files.get(path)
        status = self.server.status.get(path, 200 if body is not None else 404)
        if status != 200:
            self.send_error(status)
            return
        start = 0
        if self.server.ranges and (wanted := self.headers.get("Range")):
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        self.wfile.write(body[start : self.server.stop_after.get(path)])

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def _no_data_folder_of_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv("LONGWAVE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def pack_tar(contents=CONTENTS, extra=(), mode="w:gz"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, data in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for info in extra:
            archive.addfile(info)
    return buffer.getvalue()


def pack_zip(contents=CONTENTS, extra=()):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
        for info, data in extra:
            archive.writestr(info, data)
    return buffer.getvalue()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def register(monkeypatch, source, checks):
    """A data set named `tiny` in the registry, for one test."""
    dataset = Dataset("a tiny set", "none", source.target, (source,), checks)
    monkeypatch.setitem(DATASETS, "tiny", dataset)
    return dataset


CHECKS = (
    File("tiny/a.txt", 6000, f"sha256:{sha256(CONTENTS['tiny/a.txt'])}"),
    Folder("tiny/sub", "*.txt", 1),
)


def register_archive(monkeypatch, server, body, name="tiny.tar.gz", known=True, mirrors=(), limit=1_000_000):
    server.files[name] = body
    urls = (server.url(name), *mirrors)
    known_sum = sha256(body) if known else None
    source = Source(urls, "tiny", len(body), known_sum, archive=name, inside="tiny", limit=limit)
    return register(monkeypatch, source, CHECKS)


def leftovers(folder):
    """What a failed `get` left, apart from the parts of downloads that it may go on with."""
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".part"]


# Good downloads.


@pytest.mark.parametrize(("name", "pack"), [("tiny.tar.gz", pack_tar), ("tiny.zip", pack_zip)])
def test_a_good_archive_is_verified_unpacked_and_placed(server, folder, monkeypatch, name, pack):
    register_archive(monkeypatch, server, pack(), name)
    assert download.check("tiny", folder).state == "missing"
    path = download.get("tiny", folder)
    assert path == folder / "tiny" == download.require("tiny", folder)
    assert {name: (folder / name).read_bytes() for name in CONTENTS} == CONTENTS
    assert download.check("tiny", folder) == ("good", ())
    assert not list((folder / "downloads").glob("unpacking-*"))


def test_a_good_plain_file_is_placed_readable_by_all_whom_the_umask_allows(server, folder, monkeypatch):
    server.files["x.csv"] = b"a,b\n1,2\n"
    source = Source((server.url("x.csv"),), "deep/x.csv", 8, sha256(b"a,b\n1,2\n"))
    register(monkeypatch, source, (Table("deep/x.csv", ("a", "b"), 1),))
    path = download.get("tiny", folder)
    assert path.read_bytes() == b"a,b\n1,2\n"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_an_archive_without_a_folder_of_its_own_unpacks_into_the_target(server, folder, monkeypatch):
    body = pack_tar({"./a.txt": CONTENTS["tiny/a.txt"], "./sub/b.txt": b"second"})
    server.files["flat.tar.gz"] = body
    source = Source((server.url("flat.tar.gz"),), "tiny", len(body), sha256(body), archive="flat.tar.gz", limit=10_000)
    register(monkeypatch, source, CHECKS)
    download.get("tiny", folder)
    assert download.check("tiny", folder).state == "good"


def test_a_second_get_asks_no_server(server, folder, monkeypatch):
    register_archive(monkeypatch, server, pack_tar())
    download.get("tiny", folder)
    before = len(server.requests)
    download.get("tiny", folder)
    assert len(server.requests) == before == 1


def test_a_deleted_set_is_unpacked_again_from_the_cache(server, folder, monkeypatch):
    register_archive(monkeypatch, server, pack_tar())
    (download.get("tiny", folder) / "sub").rename(folder / "gone")
    (folder / "tiny").rename(folder / "gone2")
    download.get("tiny", folder)
    assert download.check("tiny", folder).state == "good"
    assert len(server.requests) == 1


def test_an_archive_put_into_the_cache_by_hand_needs_no_server(server, folder, monkeypatch):
    body = pack_tar()
    register_archive(monkeypatch, server, body)
    (folder / "downloads").mkdir(parents=True)
    (folder / "downloads" / "tiny.tar.gz").write_bytes(body)
    download.get("tiny", folder)
    assert download.check("tiny", folder).state == "good"
    assert server.requests == []


def test_progress_hears_of_every_byte(server, folder, monkeypatch):
    body = pack_tar()
    register_archive(monkeypatch, server, body)

    jobs = []

    class Heard:
        def start(self, text, total):
            jobs.append([text, total, 0])

        def advance(self, size):
            jobs[-1][2] += size

    download.get("tiny", folder, Heard())
    unpacked = sum(map(len, CONTENTS.values()))
    assert jobs == [
        ["downloading tiny.tar.gz", len(body), len(body)],
        ["unpacking tiny.tar.gz", unpacked, unpacked],
    ]


# Bad connections.


def test_a_truncated_body_is_not_taken_for_whole(server, folder, monkeypatch):
    register_archive(monkeypatch, server, pack_tar(), known=False)
    server.stop_after["tiny.tar.gz"] = 50
    with pytest.raises(DownloadError, match=r"IncompleteRead|50 of"):
        download.get("tiny", folder)
    assert leftovers(folder) == []
    assert download.check("tiny", folder).state == "missing"


def test_an_interrupted_download_goes_on_where_it_stopped(server, folder, monkeypatch):
    body = pack_tar({**CONTENTS, "tiny/random": os.urandom(3_000_000)})
    register_archive(monkeypatch, server, body, limit=10_000_000)
    server.stop_after["tiny.tar.gz"] = 2_000_000
    with pytest.raises(DownloadError):
        download.get("tiny", folder)
    kept = (folder / "downloads" / "tiny.tar.gz.part").stat().st_size
    assert 0 < kept <= 2_000_000
    server.stop_after.clear()
    download.get("tiny", folder)
    assert server.requests[-1] == ("tiny.tar.gz", f"bytes={kept}-")
    assert download.check("tiny", folder).state == "good"


def test_a_server_that_knows_no_ranges_sends_all_again(server, folder, monkeypatch):
    body = pack_tar()
    register_archive(monkeypatch, server, body)
    (folder / "downloads").mkdir(parents=True)
    (folder / "downloads" / "tiny.tar.gz.part").write_bytes(body[:100])
    server.ranges = False
    download.get("tiny", folder)
    assert download.check("tiny", folder).state == "good"


@pytest.mark.parametrize("part", [b"x" * 100, b"x" * 1_000_000], ids=["other bytes", "too long"])
def test_a_part_that_does_not_belong_cannot_spoil_a_download(server, folder, monkeypatch, part):
    register_archive(monkeypatch, server, pack_tar())
    (folder / "downloads").mkdir(parents=True)
    (folder / "downloads" / "tiny.tar.gz.part").write_bytes(part)
    download.get("tiny", folder)
    assert len(server.requests) == 2
    assert download.check("tiny", folder).state == "good"


def test_a_wrong_sum_is_refused_and_leaves_nothing(server, folder, monkeypatch):
    register_archive(monkeypatch, server, pack_tar())
    server.files["tiny.tar.gz"] = pack_tar({**CONTENTS, "tiny/sub/b.txt": b"forged"})
    with pytest.raises(DownloadError, match="does not have sha256"):
        download.get("tiny", folder)
    assert leftovers(folder) == []
    assert not list(folder.rglob("*.part"))


def test_without_a_known_sum_the_contents_decide(server, folder, monkeypatch):
    source = Source((server.url("x.csv"),), "x.csv", 8, None)
    register(monkeypatch, source, (Table("x.csv", ("a", "b"), 1),))
    server.files["x.csv"] = b"<html>Are you a robot?</html>"
    with pytest.raises(DownloadError, match="does not begin with the 2 columns"):
        download.get("tiny", folder)
    assert leftovers(folder) == []
    server.files["x.csv"] = b"a,b\n1,2\n"
    assert download.get("tiny", folder).read_bytes() == b"a,b\n1,2\n"


def test_an_endless_body_is_cut_off(server, folder, monkeypatch):
    source = Source((server.url("x.csv"),), "x.csv", 8, None)
    register(monkeypatch, source, (Table("x.csv", ("a", "b"), 1),))
    server.files["x.csv"] = b"0" * 3_000_000
    with pytest.raises(DownloadError, match="expected about 8"):
        download.get("tiny", folder)
    assert not [path for path in folder.rglob("*") if path.is_file()]


def test_the_next_address_serves_when_one_fails(server, folder, monkeypatch):
    body = pack_tar()
    server.files["mirror"] = body
    register_archive(monkeypatch, server, body, mirrors=(server.url("mirror"),))
    server.status["tiny.tar.gz"] = 503
    download.get("tiny", folder)
    assert [path for path, _ in server.requests] == ["tiny.tar.gz", "mirror"]
    assert download.check("tiny", folder).state == "good"


def test_a_server_error_is_reported_with_its_status(server, folder, monkeypatch):
    register_archive(monkeypatch, server, pack_tar())
    server.status["tiny.tar.gz"] = 503
    with pytest.raises(DownloadError, match="503"):
        download.get("tiny", folder)
    assert leftovers(folder) == []


def test_without_network_the_error_says_what_to_put_where_and_the_exit_code_is_2(folder, monkeypatch, capsys):
    monkeypatch.setenv("NO_PROXY", "*")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/tiny.tar.gz"
    source = Source((url,), "tiny", 100, "0" * 64, archive="tiny.tar.gz", inside="tiny", limit=1000)
    register(monkeypatch, source, CHECKS)
    with pytest.raises(SystemExit) as exit_:
        cli.main(["data", "get", "tiny", "--data-dir", str(folder)])
    assert exit_.value.code == 2
    message = capsys.readouterr().err
    assert "refused" in message
    assert f"download {url}" in message
    assert f"to {folder / 'downloads' / 'tiny.tar.gz'}" in message
    assert str(folder / "tiny" / "a.txt") in message
    assert f"longwave data get tiny --data-dir {folder}" in message


# Archives that are not safe, or not whole.


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
        download.unpack(archive, archive.parent / "out", limit=1_000_000)
    assert sorted(tmp_path.rglob("*")) == before
    assert not Path("/tmp/evil").exists()


def test_a_tar_file_that_declares_a_huge_member_is_refused_without_reading_it(tmp_path):
    info = tarfile.TarInfo("zeros")
    info.size = 10**15
    archive = tmp_path / "a.tar"
    archive.write_bytes(info.tobuf())
    with pytest.raises(Refused, match="would unpack to more than"):
        download.unpack(archive, tmp_path / "out", limit=10**9)


def test_a_tar_file_that_goes_on_after_its_end_is_refused(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(pack_tar(mode="w") + bytes(70_000_000), 1))
    with pytest.raises(Refused, match="goes on after its end"):
        download.unpack(tmp_path / "a.tar.gz", tmp_path / "out", limit=10**9)


def test_too_many_entries_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "MAX_ENTRIES", 1)
    (tmp_path / "a.tar.gz").write_bytes(pack_tar())
    with pytest.raises(Refused, match="1 files"):
        download.unpack(tmp_path / "a.tar.gz", tmp_path / "out", limit=10**9)


@pytest.mark.parametrize("name", ["a.tar.gz", "a.zip"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text"])
def test_a_damaged_archive_is_refused(tmp_path, name, damage):
    body = (pack_zip if name == "a.zip" else pack_tar)({"tiny/random": os.urandom(5000)})
    middle = len(body) // 2
    flipped = body[:middle] + bytes([body[middle] ^ 255]) + body[middle + 1 :]
    damaged = {"cut": body[:middle], "flipped": flipped, "empty": b"", "text": b"<html></html>"}[damage]
    (tmp_path / name).write_bytes(damaged)
    with pytest.raises(Refused):
        download.unpack(tmp_path / name, tmp_path / "out", limit=10**9)


@pytest.mark.parametrize("known", [True, False])
def test_get_places_nothing_of_an_unsafe_archive(server, folder, monkeypatch, known):
    register_archive(monkeypatch, server, pack_tar({**CONTENTS, "../../evil": b"evil"}), known=known)
    with pytest.raises(DownloadError, match="leads out of the folder"):
        download.get("tiny", folder)
    assert leftovers(folder.parent) == []
    assert download.check("tiny", folder).state == "missing"


def test_an_archive_without_the_expected_folder_is_refused(server, folder, monkeypatch):
    register_archive(monkeypatch, server, pack_tar({"other/a.txt": b"a"}))
    with pytest.raises(DownloadError, match="has no folder tiny"):
        download.get("tiny", folder)
    assert leftovers(folder) == []


def test_an_archive_that_lacks_a_file_is_refused(server, folder, monkeypatch):
    register_archive(monkeypatch, server, pack_tar({"tiny/a.txt": CONTENTS["tiny/a.txt"]}), known=False)
    with pytest.raises(DownloadError, match="sub"):
        download.get("tiny", folder)
    assert leftovers(folder) == []


# Interruptions.


def test_an_interrupted_unpack_leaves_nothing_and_the_next_get_completes_it(server, folder, monkeypatch):
    register_archive(monkeypatch, server, pack_tar())
    write = download._write

    def stop_at_the_second(entry, size, target, progress):
        if entry.path.name == "b.txt":
            raise KeyboardInterrupt
        write(entry, size, target, progress)

    with monkeypatch.context() as patch:
        patch.setattr(download, "_write", stop_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            download.get("tiny", folder)
    assert download.check("tiny", folder).state == "missing"
    assert leftovers(folder) == [folder / "downloads" / "tiny.tar.gz"]
    download.get("tiny", folder)
    assert download.check("tiny", folder).state == "good"
    assert len(server.requests) == 1


def test_a_process_killed_while_it_unpacks_leaves_nothing_that_check_calls_good(server, folder, monkeypatch):
    body = pack_tar()
    dataset = register_archive(monkeypatch, server, body)
    script = f"""
        import os
        from pathlib import Path
        from longwave.tasks import download
        from longwave.tasks.download import *
        DATASETS["tiny"] = {dataset!r}
        write = download._write
        def die_at_the_second(entry, size, target, progress):
            if entry.path.name == "b.txt":
                os._exit(9)
            write(entry, size, target, progress)
        download._write = die_at_the_second
        download.get("tiny", Path({str(folder)!r}))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], timeout=60)
    assert done.returncode == 9
    assert list((folder / "downloads").glob("unpacking-*/unpacked/tiny/a.txt"))
    assert download.check("tiny", folder).state == "missing"
    with pytest.raises(MissingData):
        download.require("tiny", folder)
    download.get("tiny", folder)
    assert download.check("tiny", folder).state == "good"


# Checks, and what loaders meet.


@pytest.fixture
def good(server, folder, monkeypatch):
    register_archive(monkeypatch, server, pack_tar())
    download.get("tiny", folder)
    return folder


@pytest.mark.parametrize("damage", ["other bytes", "shorter", "longer", "a file gone", "an empty file"])
def test_check_finds_damage_and_get_does_not_overwrite_it(good, server, damage):
    a, b = good / "tiny" / "a.txt", good / "tiny" / "sub" / "b.txt"
    data = a.read_bytes()
    if damage == "a file gone":
        b.unlink()
    elif damage == "an empty file":
        b.write_bytes(b"")
    else:
        a.write_bytes({"other bytes": b"F" + data[1:], "shorter": data[:-1], "longer": data + b"."}[damage])
    report = download.check("tiny", good)
    assert report.state == "wrong"
    assert len(report.problems) == 1
    with pytest.raises(ValueError, match="Move it away"):
        download.get("tiny", good)
    assert download.check("tiny", good) == report
    assert len(server.requests) == 1


def test_what_a_gzip_file_holds_will_do_without_it(tmp_path):
    part = File("x.gz", 6000, f"sha256:{sha256(CONTENTS['tiny/a.txt'])}", gzipped=True)
    assert not part.present(tmp_path)
    (tmp_path / "x").write_bytes(CONTENTS["tiny/a.txt"])
    assert part.present(tmp_path)
    assert part.problem(tmp_path) is None
    (tmp_path / "x").write_bytes(CONTENTS["tiny/a.txt"][:-1])
    assert "holds 5999 bytes" in part.problem(tmp_path).replace(",", "")


def test_a_gzip_file_is_checked_by_what_it_holds(tmp_path):
    part = File("x.gz", 6000, f"sha256:{sha256(CONTENTS['tiny/a.txt'])}", gzipped=True)
    path = tmp_path / "x.gz"
    for level in (1, 9):
        path.write_bytes(gzip.compress(CONTENTS["tiny/a.txt"], level))
        assert part.problem(tmp_path) is None
    path.write_bytes(path.read_bytes()[:-12])
    assert "damaged" in part.problem(tmp_path)
    path.write_bytes(b"not gzip")
    assert "damaged" in part.problem(tmp_path)
    path.write_bytes(gzip.compress(bytes(10_000_000)))
    assert "more bytes" in part.problem(tmp_path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,b\n1,2\n3,4\n", None),
        ("a,b\r\n1,2\r\n3,4", None),
        ("a,b\n1,2\n", "1 rows, expected 2"),
        ("a,b\n1,2\n3\n", "row 2 has 1 cells, expected 2"),
        ("a,c\n1,2\n3,4\n", "does not begin with"),
    ],
)
def test_a_table_is_checked_by_columns_and_rows(tmp_path, text, problem):
    (tmp_path / "x.csv").write_text(text, newline="")
    found = Table("x.csv", ("a", "b"), 2).problem(tmp_path)
    assert found is None if problem is None else problem in found


def test_require_says_what_is_missing_what_to_put_where_and_which_command_gets_it(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        download.require("etth1", tmp_path)
    message = str(missing.value)
    assert f"to {tmp_path / 'ETT-small' / 'ETTh1.csv'}" in message
    assert DATASETS["etth1"].sources[0].urls[0] in message
    assert f"`longwave data get etth1 --data-dir {tmp_path}`" in message


def test_require_names_the_plain_command_for_the_usual_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("LONGWAVE_DATA", str(tmp_path))
    with pytest.raises(MissingData, match="`longwave data get mnist`"):
        download.require("mnist")


def test_require_asks_only_for_the_files_that_are_missing(monkeypatch, tmp_path):
    (tmp_path / "mnist").mkdir()
    for source in DATASETS["mnist"].sources[1:]:
        (tmp_path / source.target).write_bytes(b"")
    with pytest.raises(MissingData) as missing:
        download.require("mnist", tmp_path)
    assert "train-images" in str(missing.value)
    assert "t10k" not in str(missing.value)


def test_the_data_folder_is_the_argument_then_the_variable_then_the_cache(monkeypatch, tmp_path):
    assert download.data_dir() == tmp_path / "cache" / "longwave"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert download.data_dir() == Path.home() / ".cache" / "longwave"
    monkeypatch.setenv("LONGWAVE_DATA", str(tmp_path / "named"))
    assert download.data_dir() == tmp_path / "named"
    assert download.data_dir(tmp_path) == tmp_path
    assert download.data_dir(Path("~/x")) == Path.home() / "x"


# The command line.


@pytest.mark.parametrize("command", [["get", "mnits"], ["check", "mnits"]])
def test_an_unknown_name_is_refused_with_the_nearest_right_one(command, capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["data", *command])
    assert exit_.value.code == 2
    assert "did you mean 'mnist'?" in capsys.readouterr().err


def test_list_names_every_set_its_licence_and_whether_its_sum_is_known(capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["data", "list"])
    assert not exit_.value.code
    shown = capsys.readouterr().out
    for name, dataset in DATASETS.items():
        (line,) = (line for line in shown.splitlines() if f" {name} " in line)
        assert dataset.licence in line
        assert ("sum not known" in line) == any(source.sha256 is None for source in dataset.sources)


def test_get_prints_the_path_and_check_gives_the_exit_code(server, folder, monkeypatch, capsys):
    register_archive(monkeypatch, server, pack_tar())

    def run(*arguments):
        with pytest.raises(SystemExit) as exit_:
            cli.main(["data", *arguments, "--data-dir", str(folder)])
        return exit_.value.code, capsys.readouterr()

    assert run("check", "tiny")[0] == 1
    code, output = run("get", "tiny")
    assert not code
    assert output.out == f"{folder / 'tiny'}\n"
    assert output.err == ""
    assert run("check", "tiny")[0] == 0
    assert run("check")[0] == 0  # sets that nobody asked for may be missing
    (folder / "tiny" / "a.txt").write_bytes(b"")
    code, output = run("check")
    assert code == 1
    assert "tiny/a.txt holds 0 bytes, expected 6,000" in output.out


# The registry.


@pytest.mark.parametrize("name", DATASETS)
def test_every_registered_set_is_complete(name, tmp_path):
    dataset = DATASETS[name]
    assert name == name.lower()
    assert dataset.title
    assert dataset.licence
    for part in dataset.checks:
        assert sum(part.path == s.target or part.path.startswith(f"{s.target}/") for s in dataset.sources) == 1
    for source in dataset.sources:
        assert source.target == dataset.path or source.target.startswith(f"{dataset.path}/")
        assert all(url.startswith("https://") or source.sha256 for url in source.urls)
        assert source.sha256 is None or len(bytes.fromhex(source.sha256)) == 32
        assert source.archive is None or source.limit > source.size
    with pytest.raises(MissingData, match=f"longwave data get {name}"):
        download.require(name, tmp_path)


@pytest.mark.skipif(not REAL, reason="LONGWAVE_DATA names no folder of real data")
@pytest.mark.parametrize("name", DATASETS)
def test_real_data_is_as_published(name):
    report = download.check(name, Path(REAL))
    if report.problems and all("missing" in problem or " of " in problem for problem in report.problems):
        pytest.skip(f"not here, or not whole: {report.problems[0]}")
    assert report == ("good", ())
