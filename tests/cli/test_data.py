"""`longwave data`: list, get, make, check."""

import re
import socket

import pytest
from tiny_set import CHECKS, pack_tar, register, register_archive

from longwave.cli import main as cli
from longwave.io.download.catalogue import DATASETS, Source
from longwave.io.download.making import MAKERS


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


# Sets that are made


@pytest.fixture
def run(folder, capsys):
    """A command of `longwave data` on a folder: its exit code, and what it printed."""

    def run(*arguments):
        with pytest.raises(SystemExit) as exit_:
            cli.main(["data", *arguments, "--data-dir", str(folder)])
        return exit_.value.code, capsys.readouterr()

    return run


def test_make_prints_the_path_and_list_shows_how_many_there_are(run, folder):
    def shown():
        (line,) = (line for line in run("list")[1].out.splitlines() if " listops " in line)
        return line

    assert re.search(r"100,000 .* - ", shown())
    code, output = run("make", "listops", "--count", "20", "--seed", "4")
    assert not code
    assert output.out == f"{folder / 'listops-1000'}\n"
    assert "made: 20 with seed 4" in shown()
    code, output = run("make", "listops")
    assert code == 2
    assert "has 20 examples with seed 4; expected 100,000 with seed 0: move it away" in output.err
    (folder / "listops-1000" / "made.json").unlink()
    assert "as published" in shown()


def test_options_of_a_set_are_shown(compiled, run, folder):
    code, _ = run("make", "pathfinder", "--count", "2", "--options", "equal_contrast", "all_orientations")
    assert not code
    assert "made: 2 with seed 0, all_orientations, equal_contrast" in " ".join(run("list")[1].out.split())


def test_list_names_every_set_that_can_be_made(run):
    shown = run("list")[1].out
    assert all(f" {name} " in shown and maker.title in shown for name, maker in MAKERS.items())


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["get", "listops"], "listops cannot be downloaded, only made: longwave data make listops"),
        (["make", "mnist"], "mnist cannot be made, only downloaded: longwave data get mnist"),
        (["make", "listopps"], "did you mean 'listops'?"),
        (["make", "listops", "--count", "2"], "count: expected at least 3 trees"),
        (["make", "listops", "--options", "all"], "listops has no option 'all'; expected some of: none"),
    ],
)
def test_what_cannot_be_made_or_downloaded_is_refused_with_the_right_command(run, command, message):
    code, output = run(*command)
    assert code == 2
    assert message in output.err


def test_training_without_the_data_names_the_command_that_brings_it(capsys):
    for name, command in (
        ("lra-listops", "longwave data make listops"),
        ("lra-text", "longwave data get imdb"),
        ("lra-image", "longwave data get cifar10"),
        ("lra-retrieval-synthetic-small", "longwave data make retrieval-synthetic"),
    ):
        with pytest.raises(SystemExit) as exit_:
            cli.main(["train", name])
        assert exit_.value.code == 2
        assert f"Run:\n  {command}\n" in capsys.readouterr().err
