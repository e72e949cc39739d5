"""Checkpoints: whole or not there, one before kept, nothing unpickled but tensors and plain values."""

import hashlib
import io
import math
import os

import pytest
import torch
from tiny import run_cases

from longwave.train import checkpoint
from longwave.train.checkpoint import DAMAGED, LAST, MAGIC, PREVIOUS, Damaged


def content(step):
    return {"position": {"step": step, "best": math.inf}, "model": {"w": torch.full((3,), float(step))}}


def step_of(loaded):
    return loaded[0]["position"]["step"]


@pytest.fixture
def folder(tmp_path):
    """Checkpoints of steps 1 and 2."""
    for step in (1, 2):
        checkpoint.save(tmp_path / "run", content(step))
    return tmp_path / "run"


def damage(path, kind):
    data = bytearray(path.read_bytes())
    if kind == "one bit":
        data[-100] ^= 1
    elif kind == "cut off":
        del data[-1:]
    elif kind == "empty":
        data.clear()
    elif kind == "foreign":
        data[:10] = b"PK\x03\x04......"
    path.write_bytes(data)


every_damage = pytest.mark.parametrize("kind", ["one bit", "cut off", "empty", "foreign"])


def test_what_is_saved_comes_back_to_the_bit(tmp_path):
    saved = {
        "position": {"epoch": 3, "best": math.inf, "rate": 0.1, "finished": False},
        "model": {"w": torch.randn(4, 5), "count": torch.arange(3)},
        "random": torch.get_rng_state().unsqueeze(0),
        "scaler": None,
    }
    checkpoint.save(tmp_path, saved)
    loaded, note = checkpoint.load(tmp_path)
    assert note is None
    assert loaded["position"] == saved["position"]
    assert loaded["scaler"] is None
    torch.testing.assert_close(loaded["model"], saved["model"], rtol=0, atol=0)
    assert torch.equal(loaded["random"], saved["random"])


def test_a_folder_without_checkpoints_gives_none(tmp_path):
    assert checkpoint.load(tmp_path) is None
    assert checkpoint.load(tmp_path / "not there") is None


def test_the_last_checkpoint_and_the_one_before_are_kept(folder):
    checkpoint.save(folder, content(3))
    assert sorted(os.listdir(folder)) == [LAST, PREVIOUS]
    assert step_of(checkpoint.load(folder)) == 3
    (folder / LAST).unlink()
    assert step_of(checkpoint.load(folder)) == 2


@every_damage
def test_a_damaged_last_checkpoint_falls_back_to_the_one_before_and_says_so(folder, kind):
    damage(folder / LAST, kind)
    loaded, note = checkpoint.load(folder)
    assert step_of((loaded, note)) == 1
    assert str(folder / LAST) in note
    assert "resuming from the checkpoint before it" in note


@every_damage
def test_a_damaged_checkpoint_before_does_not_matter(folder, kind):
    damage(folder / PREVIOUS, kind)
    loaded, note = checkpoint.load(folder)
    assert step_of((loaded, note)) == 2
    assert note is None


@every_damage
def test_two_damaged_checkpoints_are_a_clear_error(folder, kind):
    damage(folder / LAST, kind)
    damage(folder / PREVIOUS, kind)
    with pytest.raises(Damaged, match=r"all checkpoints are damaged; train again with --overwrite") as caught:
        checkpoint.load(folder)
    assert str(folder) in str(caught.value)
    assert isinstance(caught.value, ValueError)  # which the command line turns into a message


def test_a_damaged_only_checkpoint_is_a_clear_error(tmp_path):
    checkpoint.save(tmp_path, content(1))
    damage(tmp_path / LAST, "one bit")
    with pytest.raises(Damaged, match="all checkpoints are damaged"):
        checkpoint.load(tmp_path)


def test_a_damaged_checkpoint_set_aside_does_not_push_out_the_good_one(folder):
    damage(folder / LAST, "one bit")
    checkpoint.set_damaged_aside(folder)
    checkpoint.save(folder, content(3))
    assert sorted(os.listdir(folder)) == [DAMAGED, LAST, PREVIOUS]
    damage(folder / LAST, "one bit")
    assert step_of(checkpoint.load(folder)) == 1


def test_clearing_leaves_nothing_to_resume_from(folder):
    checkpoint.clear(folder)
    assert checkpoint.load(folder) is None
    checkpoint.clear(folder)  # and may be done twice


# A kill at every moment of a write


KILL = """
import builtins, os, signal
from longwave.core import files
from longwave.train import checkpoint

die = lambda: os.kill(os.getpid(), signal.SIGKILL)


class Half:
    \"\"\"A file that is killed half-way through its second write.\"\"\"

    def __init__(self, *arguments):
        self.file, self.writes = builtins.open(*arguments), 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def write(self, data):
        self.writes += 1
        self.file.write(data[: len(data) // self.writes])
        if self.writes == 2:
            self.file.flush()
            die()


def deadly(function, at, after):
    calls = 0

    def call(*arguments):
        nonlocal calls
        calls += 1
        if calls == at and not after:
            die()
        function(*arguments)
        if calls == at:
            die()

    return call


def prepare(where):
    if where == "half a file":
        files.open = Half
    else:
        when, name, number = where.split()
        setattr(os, name, deadly(getattr(os, name), int(number), when == "after"))


for where in moments:
    for step in (1, 2):
        checkpoint.save(folder / where, {"position": {"step": step}})
    pid = os.fork()
    if not pid:
        prepare(where)
        checkpoint.save(folder / where, {"position": {"step": 3}})
        os._exit(7)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (where, status)
"""
# Where the kill comes, and the step that is then found.
MOMENTS = {
    "half a file": 2,
    "before fsync 1": 2,
    "after fsync 1": 2,
    "before replace 1": 2,
    "after replace 1": 2,  # only the one before is there
    "before replace 2": 2,
    "after replace 2": 3,
}


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    root = tmp_path_factory.mktemp("killed")
    (answer,) = run_cases([{"folder": str(root), "script": f"moments = {[*MOMENTS]!r}\n{KILL}"}])
    assert answer["code"] == 0, answer["stderr"]
    return root


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_during_a_write_leaves_a_whole_checkpoint(moment, killed):
    loaded, note = checkpoint.load(killed / moment)
    assert step_of((loaded, note)) == MOMENTS[moment]
    assert note is None
    checkpoint.save(killed / moment, content(4))  # and the next write finds nothing in its way
    assert step_of(checkpoint.load(killed / moment)) == 4
    assert sorted(os.listdir(killed / moment)) == [LAST, PREVIOUS]


# Nothing is unpickled


class Trap:
    """Unpickled, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def plant(folder, value):
    """A checkpoint with a right checksum that holds whatever it likes."""
    buffer = io.BytesIO()
    torch.save({"position": {"step": 9}, "more": value}, buffer)
    payload = buffer.getvalue()
    folder.mkdir(exist_ok=True)
    (folder / LAST).write_bytes(MAGIC + hashlib.sha256(payload).digest() + payload)


def test_code_in_a_checkpoint_is_refused_and_not_run(tmp_path):
    plant(tmp_path, Trap(tmp_path / "sprung"))
    with pytest.raises(Damaged, match="all checkpoints are damaged"):
        checkpoint.load(tmp_path)
    assert not (tmp_path / "sprung").exists()


def test_code_in_the_last_checkpoint_falls_back_to_the_one_before(folder):
    plant(folder, Trap(folder / "sprung"))
    loaded, note = checkpoint.load(folder)
    assert step_of((loaded, note)) == 1
    assert "contains objects other than tensors and plain values" in note
    assert not (folder / "sprung").exists()


def test_a_planted_checkpoint_of_plain_values_loads(tmp_path):
    """The traps above are refused for what they hold, not for how they were made."""
    plant(tmp_path, [1, "two", torch.ones(3)])
    assert step_of(checkpoint.load(tmp_path)) == 9
