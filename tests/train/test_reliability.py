"""No work is lost and nothing is left half-done: locks, signals, kills at every file operation, full disks, damage."""

import os
import re
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from tiny import fit, make_experiment, make_run, make_task, run_cases, trace

from longwave.core import lock
from longwave.models import load_model, weights
from longwave.train import config_file, replacement

# Two steps with a validation after each.
SHORT = {"settings": {"model": {"n_layers": 1}, "loop": {"epochs": 1}}, "task": {"train": 8, "valid": 2, "test": 2}}


def parts(folder):
    return [path.name for path in folder.rglob("*") if path.name.endswith(".part")]


# Locks


def test_a_second_process_is_kept_out_and_told_who_is_in(tmp_path):
    with lock.hold(tmp_path / "run"):
        (answer,) = run_cases([{"folder": str(tmp_path / "run")}])
        assert os.listdir(tmp_path / "run") == [lock.NAME]
    assert answer["code"] == 2
    assert f"process {os.getpid()} on" in answer["stderr"]
    assert "has been training there since" in answer["stderr"]
    assert not (tmp_path / "run").exists()  # it was made for the lock


def test_a_second_thread_is_kept_out_and_the_first_may_hold_twice(tmp_path):
    found = []

    def other():
        try:
            with lock.hold(tmp_path):
                found.append("in")
        except lock.Busy as error:
            found.append(str(error))

    with lock.hold(tmp_path), lock.hold(tmp_path):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert (tmp_path / lock.NAME).exists()
    other()
    assert found == [f"{tmp_path}: another thread of this process is training there; choose another folder", "in"]
    assert not (tmp_path / lock.NAME).exists()


# Signals


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_what_schedulers_and_terminals_send_saves_as_ctrl_c_does(name, code, tmp_path):
    """It reaches every process of a job, those that load data too, and may come twice."""
    case = {"folder": str(tmp_path / "run"), "settings": {"loop": {"workers": 1}}}
    strike = {"place": "after a step", "at": 3, "signals": [name, name]}
    stopped, resumed, never = run_cases(
        [case | {"strike": strike}, case | {"resume": True}, {"folder": str(tmp_path / "never")}]
    )
    assert stopped["code"] == code, stopped["stderr"]
    assert stopped["stderr"].count(f"{name}: stopping after this step") == 1
    assert "stopped at step 3; resume with:\n  longwave train --resume" in stopped["stderr"]
    assert "resuming at step 3" in resumed["stderr"]
    assert never["code"] == resumed["code"] == 0
    assert trace(tmp_path / "run") == trace(tmp_path / "never")


def test_a_signal_during_a_validation_does_not_wait_for_its_end(tmp_path):
    """It is done anew before the next step, and at the end of a run, too, with averaged weights in their place."""
    settings = {"loop": {"eval_batch_size": 1}, "optim": {"ema": 0.5}}
    never = {"folder": str(tmp_path / "never"), "settings": settings}
    rows = len(make_task().valid)
    cases = [never]  # two steps, which have scores too, come before each validation
    for name, validation in (("second", 1), ("last", 3)):
        case = {"folder": str(tmp_path / name), "settings": settings}
        strike = {"place": "in a validation", "at": validation * (2 + rows) + 4, "signals": ["SIGTERM"]}
        cases += [case | {"strike": strike}, case | {"resume": True}]
    answers = run_cases(cases)
    assert [answer["code"] for answer in answers] == [0, 143, 0, 143, 0]
    for name, step, stopped, resumed in zip(("second", "last"), (4, 8), answers[1::2], answers[2::2], strict=True):
        assert f"stopped at step {step}; resume with:\n  longwave train --resume" in stopped["stderr"]
        assert f"resuming at step {step}" in resumed["stderr"]
        assert trace(tmp_path / name) == trace(tmp_path / "never")


def test_a_signal_during_the_final_scores_ends_the_run_in_good_order(tmp_path):
    strike = {"place": "in the final scores", "at": 1, "signals": ["SIGTERM"]}
    (answer,) = run_cases([{"folder": str(tmp_path / "run"), "strike": strike} | SHORT])
    assert answer["code"] == 143
    assert "stopped; resume from the last checkpoint with" in answer["stderr"]
    assert not (tmp_path / "run" / lock.NAME).exists()


def test_checkpoints_come_by_the_clock_where_validations_are_far_apart(tmp_path):
    settings = {"loop": {"validations": 1, "checkpoint_minutes": 1e-9}}
    case = {"folder": str(tmp_path / "run"), "settings": settings}
    strike = {"place": "after a step", "at": 4}  # before the first validation, three steps are in a checkpoint
    never = {"folder": str(tmp_path / "never"), "settings": {"loop": {"validations": 1}}}
    killed, resumed, _ = run_cases([case | {"strike": strike}, case | {"resume": True}, never])
    assert killed["code"] == -signal.SIGKILL
    assert "resuming at step 3" in resumed["stderr"]
    assert trace(tmp_path / "run") == trace(tmp_path / "never")
    with pytest.raises(ValueError, match="checkpoint_minutes: expected a number above 0, got 0"):
        make_experiment(loop={"checkpoint_minutes": 0})


# Every single operation on a file


@pytest.fixture(scope="module")
def never(tmp_path_factory):
    """What a run that nothing stops leaves, and how many operations on files it takes."""
    folder = tmp_path_factory.mktemp("operations") / "never"
    (answer,) = run_cases([{"folder": str(folder), "operation": {"at": 0, "does": "count"}} | SHORT])
    assert answer["code"] == 0, answer["stderr"]
    return trace(folder), answer["stderr"].count("operation ")


@pytest.mark.parametrize("does", ["kill", "full"])
def test_a_run_that_ends_before_any_operation_on_a_file_goes_on_to_the_bit(does, never, tmp_path):
    """Killed there, or with a full disk, which names the file and leaves nothing half-written."""
    truth, count = never
    assert count > 20
    cases = []
    for at in range(1, count + 1):
        case = {"folder": str(tmp_path / str(at))} | SHORT
        cases += [case | {"operation": {"at": at, "does": does}}, case | {"resume": True}]
    answers = run_cases(cases)
    struck = 0
    for at in range(1, count + 1):
        ended, resumed = answers[2 * at - 2 : 2 * at]
        folder = tmp_path / str(at)
        if does == "full" and ended["code"] == 0:
            continue  # there are fewer: what removes a file needs no room
        struck += 1
        if does == "kill":
            assert ended["code"] == -signal.SIGKILL, ended["stderr"]
        else:
            assert ended["code"] in (1, 2), (at, ended["stderr"])
            assert f"No space left on device: '{folder}" in ended["stderr"], (at, ended["stderr"])
        assert resumed["code"] == 0, (at, resumed["stderr"])
        assert parts(folder) == [], at
        assert trace(folder) == truth, at
        shutil.rmtree(folder)
    assert struck > 12


# A run in the place of another


def seeded(seed):
    return {"settings": {"model": {"n_layers": 1}, "loop": {"epochs": 1, "seed": seed}}, "task": SHORT["task"]}


@pytest.fixture(scope="module")
def replacing(tmp_path_factory):
    """An old run, what it and a new one leave, and how many operations on files come until it is replaced, and two."""
    base = tmp_path_factory.mktemp("replacing")
    old, new = base / "old", base / "new"
    (first,) = run_cases([{"folder": str(old), "overwrite": True} | seeded(0)])
    shutil.copytree(old, new)
    count = {"operation": {"at": 0, "does": "count"}}
    (second,) = run_cases([{"folder": str(new), "overwrite": True} | seeded(1) | count])
    assert first["code"] == second["code"] == 0, first["stderr"] + second["stderr"]
    assert {path.name for path in new.iterdir()} == {path.name for path in old.iterdir()}
    assert trace(old) != trace(new)
    marker_goes = rf"operation (\d+): os.remove {re.escape(str(new / replacement.MARKER))}\n"
    (last,) = re.findall(marker_goes, second["stderr"])
    return old, {0: trace(old), 1: trace(new)}, int(last) + 2


@pytest.mark.parametrize("does", ["kill", "full", "read-only"])
def test_replacing_a_run_leaves_the_old_one_or_a_new_one_whatever_happens(does, replacing, tmp_path):
    """At every operation on a file: the old run is complete, or the new one can be resumed."""
    old, truth, count = replacing
    folders = {at: tmp_path / str(at) for at in range(1, count + 1)}
    for folder in folders.values():
        shutil.copytree(old, folder)
    answers = run_cases(
        [
            {"folder": str(folder), "overwrite": True, "operation": {"at": at, "does": does}} | seeded(1)
            for at, folder in folders.items()
        ]
    )
    found = {}
    for (at, folder), answer in zip(folders.items(), answers, strict=True):
        if does == "full" and answer["code"] == 0:
            continue  # to make a folder that is there, or to remove a file, needs no room
        if does == "kill":
            assert answer["code"] == -signal.SIGKILL, answer["stderr"]
        else:
            assert answer["code"] in (1, 2), (at, answer["stderr"])
        if does == "full":
            assert not (folder / lock.NAME).exists(), at
        found[at] = config_file.read(folder).content["experiment"]["loop"]["seed"]
        if found[at] == 0:
            assert trace(folder) == truth[0], at
    assert list(found.values()) == sorted(found.values()), found  # the old run up to some operation, then the new one
    assert set(found.values()) == {0, 1}
    resumed = run_cases([{"folder": str(folders[at]), "resume": True} | seeded(seed) for at, seed in found.items()])
    for (at, seed), answer in zip(found.items(), resumed, strict=True):
        assert answer["code"] == 0, (at, answer["stderr"])
        assert trace(folders[at]) == truth[seed], at
        assert {path.name for path in folders[at].iterdir()} == {path.name for path in old.iterdir()}, at


def test_a_reader_waits_for_files_that_are_being_moved(replacing, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(replacing[0], folder)
    (folder / replacement.NEW).mkdir()
    shutil.copy(folder / "config.json", folder / replacement.NEW)
    replacement.announce(folder)
    monkeypatch.setattr(replacement, "PATIENCE", 0.1)
    with ThreadPoolExecutor(1) as pool:
        with lock.hold(folder), pytest.raises(lock.Busy, match="another thread of this process is training there"):
            pool.submit(config_file.read, folder).result()
        pool.submit(config_file.read, folder).result()
    assert not (folder / replacement.MARKER).exists()
    assert not (folder / replacement.NEW).exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"files": ["../x"]}', '{"files": [""]}', '{"files": 1}'])
def test_a_damaged_marker_moves_nothing(content, tmp_path):
    (tmp_path / replacement.MARKER).write_text(content)
    with pytest.raises(ValueError, match=r"\.moving: expected the names of the files in .*; move these files by hand"):
        config_file.read(tmp_path)


# A full disk


def test_a_file_that_grows_beyond_the_room_is_named_and_removed(tmp_path):
    """The real thing: a write that the system refuses half-way."""
    (answer,) = run_cases([{"folder": str(tmp_path / "run"), "room": 1000} | SHORT])
    assert answer["code"] == 2
    assert "File too large: '" in answer["stderr"]
    assert answer["stderr"].endswith("model.safetensors'\n")
    assert parts(tmp_path) == []


# The best weights


def lose(best):
    shutil.rmtree(best)


def flip(best):
    tiny.damage(best / "model.safetensors")


@pytest.mark.parametrize("damage", [lose, flip])
def test_best_weights_that_are_damaged_are_noticed_before_a_run_goes_on(damage, tmp_path, capsys):
    """They are written again if the checkpoint has them, and else the run is refused."""
    for keep in ("last", "best"):
        folder = tmp_path / keep
        settings = {"optim": {"lr": 1e-30, "ssm_lr": 0.0, "schedule": "constant"}, "loop": {"epochs": 1, "keep": keep}}
        fit(make_run(folder, make_experiment(**settings), make_task(), quiet=True))
        before = tiny.bits(load_model(folder / "best").state_dict())
        damage(folder / "best")
        again = make_run(folder, make_experiment(**settings), make_task())
        again._train = lambda: pytest.fail("it was trained")
        if keep == "last":
            again._train = lambda: None
            fit(again, resume=True)
            assert "rewriting it from the checkpoint, which has the same weights" in capsys.readouterr().err
            assert tiny.bits(load_model(folder / "best").state_dict()) == before
        else:
            with pytest.raises(ValueError, match=r"best weights, of step 2, are lost.*step 4: restore .* --overwrite"):
                fit(again, resume=True)


@pytest.fixture
def model(tmp_path):
    made = make_experiment().model.build()
    made.save_pretrained(tmp_path)
    return made


def test_every_flipped_bit_of_the_weights_is_noticed(model, tmp_path):
    path = tmp_path / "model.safetensors"
    data = path.read_bytes()
    generator = torch.Generator().manual_seed(0)
    places = torch.randint(8 * len(data), (300,), generator=generator).tolist()
    for place in places:
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(weights.Damaged, match=r"model\.safetensors: (the file is damaged|expected the weights)"):
            load_model(tmp_path)


def test_weights_without_a_sum_are_read_as_they_are(model, tmp_path):
    path = tmp_path / "model.safetensors"
    save_file(load_file(path), path)
    assert tiny.bits(load_model(tmp_path).state_dict()) == tiny.bits(model.state_dict())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_weights_of_another_dtype_are_cast_to_that_of_the_settings_where_a_run_is_used(dtype, model, tmp_path):
    path = tmp_path / "model.safetensors"
    saved = {name: values.to(dtype) for name, values in load_file(path).items()}
    save_file(saved, path)
    cast = load_model(tmp_path, as_built=True).state_dict()
    assert {name: values.dtype for name, values in cast.items()} == dict.fromkeys(cast, torch.float32)
    assert all(values.equal(saved[name].float()) for name, values in cast.items())
    assert load_model(tmp_path).state_dict()["decoder.linear.bias"].dtype == dtype  # in Python, as they are


def test_weights_that_are_no_floats_are_refused(model, tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({name: values.int() for name, values in load_file(path).items()}, path)
    with pytest.raises(ValueError, match=r"model\.safetensors: .*: expected torch.float32, got torch.int32"):
        load_model(tmp_path)
