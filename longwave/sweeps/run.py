"""Run a sweep: one run after the other in this process, or several in parallel, each in its own process.

Finished runs are kept, interrupted ones are resumed, bit for bit, and those that diverged are not tried again.
Processes end with the sweep, however that ends: each waits for the end of its standard input.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from longwave import runs
from longwave.core import files, terminal
from longwave.experiments.prepared import prepare_on
from longwave.sweeps.folder import SweepFolder
from longwave.sweeps.picture import draw_ablation, draw_sweep
from longwave.sweeps.plan import Member
from longwave.train.device import find_device
from longwave.train.display import time_left
from longwave.train.loop import Diverged, Interrupted, TrainingError

Say = Callable[[str], None]
CHILD = "import sys; from longwave.sweeps.run import run_in_child; run_in_child(*sys.argv[1:])"
POLL = 0.2  # seconds between polls of the processes


def start(
    members: Sequence[Member],
    folder: str | Path,
    data_dir: str | Path | None = None,
    *,
    jobs: int = 1,
    quiet: bool = False,
    device: str = "auto",
) -> SweepFolder:
    """Run a sweep in a folder, or resume it there; another sweep in the folder is refused.

    Before anything is trained, the data is read and every model is built once, so that what does not fit is refused.
    """
    check_jobs(jobs, device)
    data_dir = None if data_dir is None else Path(data_dir).expanduser().resolve()
    members = [
        one._replace(experiment=replace(one.experiment, task=one.experiment.task.with_absolute_paths()))
        for one in members
    ]
    if (Path(folder) / "sweep.json").exists():
        sweep = SweepFolder.open(folder)
        sweep.check_members(members)
    else:
        goal, higher_is_better = _check(members, data_dir)
        sweep = SweepFolder(Path(folder), members, goal, higher_is_better, data_dir)
        sweep.write()
    _run(sweep, jobs, quiet, device)
    return sweep


def resume(folder: str | Path, *, jobs: int = 1, quiet: bool = False, device: str = "auto") -> SweepFolder:
    """Resume a sweep that was stopped, or open one that is finished."""
    check_jobs(jobs, device)
    sweep = SweepFolder.open(folder)
    _run(sweep, jobs, quiet, device)
    return sweep


def _run(sweep: SweepFolder, jobs: int, quiet: bool, device: str) -> None:
    """Run the unfinished runs; write table and picture after each, and at the end."""
    left = [member for member in sweep.members if sweep.state(member) in ("new", "interrupted")]
    say: Say = (lambda text: None) if quiet else terminal.say
    if len(left) < len(sweep.members):
        say(f"{len(sweep.members) - len(left)} of {len(sweep.members)} runs are finished already")

    def ended(member: Member) -> None:
        if sweep.state(member) == "failed":
            say(f"  {member.name} failed; the sweep continues")
        else:
            result = sweep.result(member)
            score = f"validation {sweep.goal.replace('_', ' ')} {result['valid'][sweep.goal]:.4f}"
            say(f"  {member.name}: {score}, {result['seconds'] / 60:.1f} minutes")
        if any(sweep.state(one) in ("new", "interrupted") for one in left):
            _try_to_write(sweep)

    try:
        if jobs == 1:
            _run_here(sweep, left, say, ended, quiet, device)
        else:
            _run_apart(sweep, left, say, ended, jobs, device)
    except TrainingError:
        _try_to_write(sweep)
        raise
    except OSError as error:
        if error.errno in files.FULL:
            error.__notes__ = [f"make room, then resume with: {sweep.resume_command}"]  # of the sweep, not of its run
        raise
    except (KeyboardInterrupt, Interrupted) as error:
        _try_to_write(sweep)
        command = f"{sweep.resume_command}{f' --jobs {jobs}' if jobs > 1 else ''}"
        text = terminal.with_command("the sweep was stopped; resume with", command)
        if not isinstance(error, Interrupted):
            raise Interrupted(text) from None
        error.args = (text,)
        raise
    _write(sweep)


def _write(sweep: SweepFolder) -> None:
    """Write the table and the picture of what has been run so far."""
    sweep.write_table()
    (draw_ablation if sweep.is_ablation else draw_sweep)(sweep)


def _try_to_write(sweep: SweepFolder) -> None:
    """Write table and picture; a failure neither ends the sweep nor hides why it ends."""
    try:
        _write(sweep)
    except Exception as error:
        terminal.say(f"note: the table and the picture of {sweep.path} were not written ({error})")


def check_jobs(jobs: int, device: str) -> None:
    """Refuse a device that is not there, and less than one job."""
    find_device(device)
    if jobs < 1:
        raise ValueError(f"--jobs: expected at least 1, got {jobs}")


def _check(members: Sequence[Member], data_dir: Path | None) -> tuple[str, bool]:
    """Build each task and model once; returns the score to compare by, and whether higher is better."""
    if not members:
        raise ValueError("sweep: nothing to run")
    goals: dict[tuple[str, bool], str] = {}
    experiments = {(one.experiment.task, one.experiment.model): one.experiment for one in members}
    for settings in dict.fromkeys(task for task, _ in experiments):
        task = settings.build(data_dir)
        goals[task.goal, task.higher_is_better] = task.name
        for experiment in experiments.values():
            if experiment.task == settings:
                prepare_on(experiment, task).experiment.model.build()
    if len(goals) > 1:
        named = " and ".join(f"{goal} of {name}" for (goal, _), name in goals.items())
        raise ValueError(f"sweep: expected tasks with the same validation score, got {named}")
    return next(iter(goals))


def _train(sweep: SweepFolder, member: Member, *, quiet: bool, device: str) -> None:
    """Start or resume one run; if it diverges, its folder gets a failure.json."""
    place = sweep.place(member)
    try:
        if sweep.state(member) == "interrupted":
            runs.resume(place, quiet=quiet, device=device)
        else:
            runs.start(member.experiment, place, sweep.data_dir, quiet=quiet, device=device)
    except Diverged as error:
        files.write_json(place / "failure.json", {"reason": str(error)})


def _run_here(
    sweep: SweepFolder, left: Sequence[Member], say: Say, ended: Callable[[Member], None], quiet: bool, device: str
) -> None:
    started = time.monotonic()
    for done, member in enumerate(left):
        say(f"run {done + 1} of {len(left)}: {member.name}{_left(started, done, len(left))}")
        _train(sweep, member, quiet=quiet, device=device)
        ended(member)


def _run_apart(
    sweep: SweepFolder, left: Sequence[Member], say: Say, ended: Callable[[Member], None], jobs: int, device: str
) -> None:
    """Keep `jobs` processes busy; if one of them fails, the others are stopped and saved."""
    started, waiting, running = time.monotonic(), list(left), dict[str, "_Process"]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                member = waiting.pop(0)
                number = len(left) - len(waiting)
                say(f"run {number} of {len(left)}: {member.name}{_left(started, number - 1 - len(running), len(left))}")
                running[member.name] = _Process(sweep, member, device, jobs)
            for name, process in list(running.items()):
                if process.is_finished():
                    del running[name]
                    ended(process.member)
            time.sleep(POLL)
    finally:
        for process in running.values():
            process.stop()
        for process in running.values():
            process.wait()


class _Process:
    """A run in its own process and session: Ctrl-C on the terminal reaches the sweep alone, which passes it on."""

    def __init__(self, sweep: SweepFolder, member: Member, device: str, jobs: int) -> None:
        self.member = member
        threads = max(1, (os.cpu_count() or 1) // jobs)
        self.errors = sweep.path / f".{member.name}.errors"
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", CHILD, str(sweep.path), member.name, device, *sys.argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={"OMP_NUM_THREADS": str(threads), **os.environ},
                start_new_session=True,
            )

    def is_finished(self) -> bool:
        """Whether the run is finished; any failure but divergence is raised."""
        code = self.process.poll()
        if code is None:
            return False
        self.wait()
        if code == 0:
            self.errors.unlink(missing_ok=True)
            return True
        said = self.errors.read_text(errors="replace").strip()
        if code in files.FULL:  # it has said which file does not fit, unless that did not fit either
            raise OSError(code, os.strerror(code), said or str(self.errors))
        said = said or f"exit code {code}"
        reason = re.split(r"\n(?! )", said)[-1]  # with a command below it, which is indented
        raise TrainingError(f"{self.member.name} (all of it: {self.errors}): {reason}")

    def stop(self) -> None:
        """Ask the run to save and end after the current step."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def wait(self) -> None:
        """Wait for the end of the process."""
        self.process.wait()
        self.stop()


def run_in_child(folder: str, name: str, device: str, *command: str) -> None:
    """The main function of a process of a sweep: one run, until it is finished or the sweep closes its input.

    `command` is that of the sweep, which started the run.
    """
    sys.argv = list(command)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
    threading.Thread(target=_end_with_the_sweep, daemon=True).start()
    sweep = SweepFolder.open(folder)
    (member,) = (one for one in sweep.members if one.name == name)
    try:
        _train(sweep, member, quiet=True, device=device)
    except (KeyboardInterrupt, Interrupted):
        sys.exit(130)
    except OSError as error:
        if error.errno not in files.FULL:
            sys.exit(str(error))  # one line, which the sweep shows
        with contextlib.suppress(OSError):
            print(error.filename, file=sys.stderr, flush=True)
        sys.exit(error.errno)


def _end_with_the_sweep() -> None:
    os.read(sys.stdin.fileno(), 1)  # not sys.stdin.read, whose lock would be held when the process ends
    signal.raise_signal(signal.SIGINT)


def _left(started: float, done: int, count: int) -> str:
    """The estimated remaining time, once a run is finished."""
    if done < 1:
        return ""
    return f" ({time_left((time.monotonic() - started) / done * (count - done))})"
