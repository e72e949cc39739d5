"""The long campaign of damaged files through the real commands: `make fuzz`, or python tests/fuzz.py --cases 5000.

Each case runs in a process of its own, forked from this one, with limits on time and memory. A finding is any exit code
but 0, 1 and 2, a traceback, a file left half-written, output beside an error, code that ran, or a command without end.
Cases of findings are printed with the kind and the seed that repeat them: --kind weights --first 17 --cases 1.
"""

import argparse
import collections
import contextlib
import io
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path

import huggingface_hub.constants
import torch
from damage import KINDS, left_behind, meet
from trained import TrainedRuns

from longwave.pictures import html as base
from longwave.tasks.classify import baselines as sequence_baselines

SECONDS, PATIENCE, MEMORY = 30, 600, 6 << 30  # of the processor, of the clock, and bytes, that a case may take
GOOD = (0, 1, 2)


def run_case(runs: TrainedRuns, name: str, seed: int, root: Path) -> tuple[int, str, list[str], str]:
    """Exit code, what was said, what is wrong, and the command of a case."""
    folder = root / "case"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    said = root / "said.txt"
    pid = os.fork()
    if not pid:
        _child(runs, name, seed, folder, said)
    _, status = os.waitpid(pid, 0)
    code, text = os.waitstatus_to_exitcode(status), said.read_text(errors="replace")
    command, _, text = text.partition("\n")
    with contextlib.chdir(folder):
        wrong = [f"left {name}" for name in left_behind(code, command.partition(" ")[0])]
    if code not in GOOD:
        wrong.append("no end" if code in (-signal.SIGALRM, -signal.SIGPROF) else f"exit code {code}")
    if "Traceback" in text:
        wrong.append("traceback")
    return code, text, wrong, command


def _child(runs: TrainedRuns, name: str, seed: int, folder: Path, said: Path) -> None:
    code = 70
    try:
        os.chdir(folder)
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.dup2(2, 1)
        runs.fetch(KINDS[name].run)
        command = KINDS[name].damage(random.Random(f"{name} {seed}"))
        print(" ".join(command), file=sys.stderr, flush=True)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(PATIENCE)  # for one that waits
        meet(command)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=300, help="of each kind")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kind", choices=sorted(KINDS), help="one kind alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    huggingface_hub.constants.HF_HUB_OFFLINE = True
    sequence_baselines.FEATURES = 84
    base.render = lambda figure: b"picture"  # which would take longer than all the rest
    findings = 0
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        runs = TrainedRuns(root / "runs")
        runs.base.mkdir()
        os.environ["LONGWAVE_DATA"] = str(root / "data")
        for name in [options.kind] if options.kind else KINDS:
            (root / "warm").mkdir(exist_ok=True)
            with contextlib.chdir(root / "warm"), contextlib.redirect_stderr(io.StringIO()):
                runs.fetch(KINDS[name].run)  # trained here, once for all cases
            codes: collections.Counter[int] = collections.Counter()
            for seed in range(options.first, options.first + options.cases):
                code, text, wrong, command = run_case(runs, name, seed, root)
                codes[code] += 1
                if wrong:
                    findings += 1
                    last = "\n    ".join(text.splitlines()[-6:])
                    print(f"FOUND {name} --first {seed}: {', '.join(wrong)}\n    {command}\n    {last}", flush=True)
            summary = ", ".join(f"{count} exit {code}" for code, count in sorted(codes.items()))
            print(f"{name}: {codes.total()} cases: {summary}", flush=True)
    print(f"{findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
