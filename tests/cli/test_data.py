"""`longwave data`: list, get, check."""

import re
import socket

import pytest
from tiny_set import CHECKS, pack_tar, register, register_archive

from longwave.cli import main as cli
from longwave.data.catalogue import DATASETS, Source


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "elsewhere"


@pytest.mark.parametrize("command", [["get", "mnits"], ["check", "mnits"]])
def test_an_unknown_name_is_refused_with_the_nearest_right_one(command, capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["data", *command])
    assert exit_.value.code == 2
    assert "did you mean 'mnist'?" in capsys.readouterr().err


def test_list_names_every_set_its_licence_and_whether_its_checksum_is_known(capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(["data", "list"])
    assert not exit_.value.code
    shown = capsys.readouterr().out
    for name, dataset in DATASETS.items():
        (line,) = (line for line in shown.splitlines() if f" {name} " in line)
        assert dataset.licence in line
        assert ("no checksum" in line) == any(source.sha256 is None for source in dataset.sources)


@pytest.mark.parametrize("command", [["list"], ["check", "etth1"]])
def test_on_a_narrow_terminal_every_cell_is_whole(command, capsys, monkeypatch):
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", "40")):
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        cli.main(["data", *command])
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "…" not in shown
    assert "name  etth1\n" in shown
    if command == ["list"]:
        assert all(f"licence  {dataset.licence}\n" in shown for dataset in DATASETS.values())
    else:
        assert "problems  longwave data get etth1\n" in shown


def test_get_prints_the_path_and_check_gives_the_exit_code(server, folder, capsys):
    register_archive(server, pack_tar())

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


def test_without_network_the_error_says_what_to_put_where_and_the_exit_code_is_2(server, folder, capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/tiny.tar.gz"
    source = Source((url,), "tiny", 100, "0" * 64, archive="tiny.tar.gz", inside="tiny", limit=1000)
    register(source, CHECKS)
    with pytest.raises(SystemExit) as exit_:
        cli.main(["data", "get", "tiny", "--data-dir", str(folder)])
    assert exit_.value.code == 2
    message = capsys.readouterr().err
    assert "refused" in message
    assert f"download {url}" in message
    assert f"to {folder / 'downloads' / 'tiny.tar.gz'}" in message
    assert str(folder / "tiny" / "a.txt") in message
    assert f"longwave data get tiny --data-dir {folder}" in message
