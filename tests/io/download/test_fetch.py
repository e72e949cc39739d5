"""Downloads, against a server on this machine; nothing here uses the internet."""

import os
import stat
import subprocess
import sys
import textwrap

import pytest
from full_disk import room
from tiny_set import CHECKS, CONTENTS, leftovers, pack_tar, pack_zip, register, register_archive, sha256

from longwave.io.download import archive, catalogue, fetch
from longwave.io.download.catalogue import CsvFile, MissingData, Source
from longwave.io.download.fetch import DownloadError

# Good downloads.


@pytest.mark.parametrize(("name", "pack"), [("tiny.tar.gz", pack_tar), ("tiny.zip", pack_zip)])
def test_a_good_archive_is_verified_unpacked_and_placed(server, folder, name, pack):
    register_archive(server, pack(), name)
    assert catalogue.check("tiny", folder).state == "missing"
    path = fetch.get("tiny", folder)
    assert path == folder / "tiny" == catalogue.require("tiny", folder)
    assert {name: (folder / name).read_bytes() for name in CONTENTS} == CONTENTS
    assert catalogue.check("tiny", folder) == ("good", ())
    assert not list((folder / "downloads").glob("unpacking-*"))


def test_a_good_plain_file_is_placed_readable_by_all_whom_the_umask_allows(server, folder):
    server.files["x.csv"] = b"a,b\n1,2\n"
    source = Source((server.url("x.csv"),), "deep/x.csv", 8, sha256(b"a,b\n1,2\n"))
    register(source, (CsvFile("deep/x.csv", ("a", "b"), 1),))
    path = fetch.get("tiny", folder)
    assert path.read_bytes() == b"a,b\n1,2\n"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_an_archive_without_a_folder_of_its_own_unpacks_into_the_target(server, folder):
    body = pack_tar({"./a.txt": CONTENTS["tiny/a.txt"], "./sub/b.txt": b"second"})
    server.files["flat.tar.gz"] = body
    source = Source((server.url("flat.tar.gz"),), "tiny", len(body), sha256(body), archive="flat.tar.gz", limit=10_000)
    register(source, CHECKS)
    fetch.get("tiny", folder)
    assert catalogue.check("tiny", folder).state == "good"


def test_a_second_get_asks_no_server(server, folder):
    register_archive(server, pack_tar())
    fetch.get("tiny", folder)
    before = len(server.requests)
    fetch.get("tiny", folder)
    assert len(server.requests) == before == 1


def test_a_deleted_set_is_unpacked_again_from_the_cache(server, folder):
    register_archive(server, pack_tar())
    (fetch.get("tiny", folder) / "sub").rename(folder / "gone")
    (folder / "tiny").rename(folder / "gone2")
    fetch.get("tiny", folder)
    assert catalogue.check("tiny", folder).state == "good"
    assert len(server.requests) == 1


def test_an_archive_put_into_the_cache_by_hand_needs_no_server(server, folder):
    body = pack_tar()
    register_archive(server, body)
    (folder / "downloads").mkdir(parents=True)
    (folder / "downloads" / "tiny.tar.gz").write_bytes(body)
    fetch.get("tiny", folder)
    assert catalogue.check("tiny", folder).state == "good"
    assert server.requests == []


def test_progress_hears_of_every_byte(server, folder):
    body = pack_tar()
    register_archive(server, body)

    jobs = []

    class Heard:
        def start(self, text, total):
            jobs.append([text, total, 0])

        def advance(self, size):
            jobs[-1][2] += size

    fetch.get("tiny", folder, Heard())
    unpacked = sum(map(len, CONTENTS.values()))
    assert jobs == [
        ["downloading tiny.tar.gz", len(body), len(body)],
        ["unpacking tiny.tar.gz", unpacked, unpacked],
    ]


# Bad connections.


def test_a_truncated_body_is_not_taken_for_whole(server, folder):
    register_archive(server, pack_tar(), known=False)
    server.stop_after["tiny.tar.gz"] = 50
    with pytest.raises(DownloadError, match=r"IncompleteRead|50 of"):
        fetch.get("tiny", folder)
    assert leftovers(folder) == []
    assert catalogue.check("tiny", folder).state == "missing"


def test_an_interrupted_download_goes_on_where_it_stopped(server, folder):
    body = pack_tar({**CONTENTS, "tiny/random": os.urandom(3_000_000)})
    register_archive(server, body, limit=10_000_000)
    server.stop_after["tiny.tar.gz"] = 2_000_000
    with pytest.raises(DownloadError):
        fetch.get("tiny", folder)
    kept = (folder / "downloads" / "tiny.tar.gz.part").stat().st_size
    assert 0 < kept <= 2_000_000
    server.stop_after.clear()
    fetch.get("tiny", folder)
    assert server.requests[-1] == ("tiny.tar.gz", f"bytes={kept}-")
    assert catalogue.check("tiny", folder).state == "good"


def test_a_server_that_knows_no_ranges_sends_all_again(server, folder):
    body = pack_tar()
    register_archive(server, body)
    (folder / "downloads").mkdir(parents=True)
    (folder / "downloads" / "tiny.tar.gz.part").write_bytes(body[:100])
    server.ranges = False
    fetch.get("tiny", folder)
    assert catalogue.check("tiny", folder).state == "good"


@pytest.mark.parametrize("part", [b"x" * 100, b"x" * 1_000_000], ids=["other bytes", "too long"])
def test_a_part_that_does_not_belong_cannot_spoil_a_download(server, folder, part):
    register_archive(server, pack_tar())
    (folder / "downloads").mkdir(parents=True)
    (folder / "downloads" / "tiny.tar.gz.part").write_bytes(part)
    fetch.get("tiny", folder)
    assert len(server.requests) == 2
    assert catalogue.check("tiny", folder).state == "good"


def test_a_wrong_sum_is_refused_and_leaves_nothing(server, folder):
    register_archive(server, pack_tar())
    server.files["tiny.tar.gz"] = pack_tar({**CONTENTS, "tiny/sub/b.txt": b"forged"})
    with pytest.raises(DownloadError, match="does not have sha256"):
        fetch.get("tiny", folder)
    assert leftovers(folder) == []
    assert not list(folder.rglob("*.part"))


def test_without_a_known_sum_the_contents_decide(server, folder):
    source = Source((server.url("x.csv"),), "x.csv", 8, None)
    register(source, (CsvFile("x.csv", ("a", "b"), 1),))
    server.files["x.csv"] = b"<html>Are you a robot?</html>"
    with pytest.raises(DownloadError, match="does not begin with the 2 columns"):
        fetch.get("tiny", folder)
    assert leftovers(folder) == []
    server.files["x.csv"] = b"a,b\n1,2\n"
    assert fetch.get("tiny", folder).read_bytes() == b"a,b\n1,2\n"


def test_an_endless_body_is_cut_off(server, folder):
    source = Source((server.url("x.csv"),), "x.csv", 8, None)
    register(source, (CsvFile("x.csv", ("a", "b"), 1),))
    server.files["x.csv"] = b"0" * 3_000_000
    with pytest.raises(DownloadError, match="expected about 8"):
        fetch.get("tiny", folder)
    assert not [path for path in folder.rglob("*") if path.is_file()]


def test_the_next_address_serves_when_one_fails(server, folder):
    body = pack_tar()
    server.files["mirror"] = body
    register_archive(server, body, mirrors=(server.url("mirror"),))
    server.status["tiny.tar.gz"] = 503
    fetch.get("tiny", folder)
    assert [path for path, _ in server.requests] == ["tiny.tar.gz", "mirror"]
    assert catalogue.check("tiny", folder).state == "good"


def test_a_server_error_is_reported_with_its_status(server, folder):
    register_archive(server, pack_tar())
    server.status["tiny.tar.gz"] = 503
    with pytest.raises(DownloadError, match="503"):
        fetch.get("tiny", folder)
    assert leftovers(folder) == []


# Archives that are not safe, or not whole.


@pytest.mark.parametrize("known", [True, False])
def test_get_places_nothing_of_an_unsafe_archive(server, folder, known):
    register_archive(server, pack_tar({**CONTENTS, "../../evil": b"evil"}), known=known)
    with pytest.raises(DownloadError, match="is outside the folder"):
        fetch.get("tiny", folder)
    assert leftovers(folder.parent) == []
    assert catalogue.check("tiny", folder).state == "missing"


def test_an_archive_without_the_expected_folder_is_refused(server, folder):
    register_archive(server, pack_tar({"other/a.txt": b"a"}))
    with pytest.raises(DownloadError, match="has no folder tiny"):
        fetch.get("tiny", folder)
    assert leftovers(folder) == []


def test_an_archive_that_lacks_a_file_is_refused(server, folder):
    register_archive(server, pack_tar({"tiny/a.txt": CONTENTS["tiny/a.txt"]}), known=False)
    with pytest.raises(DownloadError, match="sub"):
        fetch.get("tiny", folder)
    assert leftovers(folder) == []


# Interruptions.


def test_an_interrupted_unpack_leaves_nothing_and_the_next_get_completes_it(server, folder, monkeypatch):
    register_archive(server, pack_tar())
    place = archive._place

    def stop_at_the_second(entry, target, progress):
        if entry.path.name == "b.txt":
            raise KeyboardInterrupt
        place(entry, target, progress)

    with monkeypatch.context() as patch:
        patch.setattr(archive, "_place", stop_at_the_second)
        with pytest.raises(KeyboardInterrupt):
            fetch.get("tiny", folder)
    assert catalogue.check("tiny", folder).state == "missing"
    assert leftovers(folder) == [folder / "downloads" / "tiny.tar.gz"]
    fetch.get("tiny", folder)
    assert catalogue.check("tiny", folder).state == "good"
    assert len(server.requests) == 1


def test_a_process_killed_while_it_unpacks_leaves_nothing_that_check_calls_good(server, folder):
    body = pack_tar()
    dataset = register_archive(server, body)
    script = f"""
        import os
        from pathlib import Path
        from longwave.io.download import archive, fetch
        from longwave.io.download.catalogue import *
        DATASETS.register("tiny")({dataset!r})
        place = archive._place
        def die_at_the_second(entry, target, progress):
            if entry.path.name == "b.txt":
                os._exit(9)
            place(entry, target, progress)
        archive._place = die_at_the_second
        fetch.get("tiny", Path({str(folder)!r}))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], timeout=60)
    assert done.returncode == 9
    assert list((folder / "downloads").glob("unpacking-*/unpacked/tiny/a.txt"))
    assert catalogue.check("tiny", folder).state == "missing"
    with pytest.raises(MissingData):
        catalogue.require("tiny", folder)
    fetch.get("tiny", folder)
    assert catalogue.check("tiny", folder).state == "good"


# Checks, and what loaders meet.


def test_a_full_disk_is_an_error_that_names_the_file(server, folder):
    """While the archive comes in, whose beginning stays to be resumed, and while it is unpacked."""
    archive = pack_tar()
    register_archive(server, archive)
    for size, file in {5: r"downloads/.*\.part", len(archive): "tiny/a.txt"}.items():
        with room(size), pytest.raises(OSError, match=f"File too large: '.*{file}'"):
            fetch.get("tiny", folder)
        assert not (folder / "tiny").exists()
        assert list(folder.rglob("unpacking-*")) == []
    fetch.get("tiny", folder)


@pytest.fixture
def good(server, folder):
    register_archive(server, pack_tar())
    fetch.get("tiny", folder)
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
    report = catalogue.check("tiny", good)
    assert report.state == "wrong"
    assert len(report.problems) == 1
    with pytest.raises(ValueError, match="Move it away"):
        fetch.get("tiny", good)
    assert catalogue.check("tiny", good) == report
    assert len(server.requests) == 1


# Servers and archives that are not what they should be


def test_a_server_that_sends_next_to_nothing_is_given_up_and_the_next_one_serves(server, folder, monkeypatch):
    """Without a limit on the whole time: a slow line may take a day."""
    monkeypatch.setattr(fetch, "PATIENCE", 0.1)
    body = pack_tar()
    server.files["good.tar.gz"] = body
    register_archive(server, body, mirrors=(server.url("good.tar.gz"),))
    server.drips.add("tiny.tar.gz")
    fetch.get("tiny", folder)
    assert [path for path, _ in server.requests] == ["tiny.tar.gz", "good.tar.gz"]


def test_an_archive_with_a_file_where_a_folder_should_be_is_refused_and_the_next_address_serves(server, folder):
    good = pack_tar()
    server.files["good.tar.gz"] = good
    wrong = pack_tar({"tiny/a.txt": CONTENTS["tiny/a.txt"], "tiny/sub": b"a file"})
    register_archive(server, wrong, known=False, mirrors=(server.url("good.tar.gz"),))
    fetch.get("tiny", folder)
    assert catalogue.check("tiny", folder).state == "good"
