"""`longwave train`: train on a named experiment or on your data."""

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longwave.cli._experiment import ResumeOptions, RunOptions, parse_experiment, parse_resume
from longwave.core.terminal import say
from longwave.train import config_file

if TYPE_CHECKING:
    from longwave.experiments import Experiment

DESCRIPTION = """Train a model, score its best weights on the test set, and write a report.

Examples:
  longwave train etth1-720-small
  longwave train etth1-720 --model.d-model 64 --optim.lr 0.004 --seeds 0 1 2
  longwave train smnist-small --model.norm layer
  longwave train forecast --csv my.csv --target price --time date --horizon 96
  longwave train forecast --csv my.csv --target price --irregular --model.mixer.kind s4d --optim.lr 0.005
  longwave train classify --npz my.npz                (x and y; or --csv my.csv --label kind, one row per sequence)
  longwave train regress --npz my.npz                 (numbers to predict; or --csv my.csv --target yield)
  longwave train tag --npz my.npz                     (a label at each step; or --csv my.csv --sequence id)
  longwave train audio --folder clips/                (one subfolder per class; or --csv list.csv: file and label)
  longwave train text --file my.txt
  longwave train waveform --folder music/             (audio files, sample by sample, to generate more)
  longwave train --config my.json --loop.epochs 5     (settings as longwave show prints them, and changes)
  longwave train --resume runs/etth1-720-seed0        (after a kill or Ctrl-C, exactly where it stopped)"""


def main(arguments: list[str]) -> int:
    """Run `longwave train`."""
    resumed = parse_resume("train", ResumeOptions, arguments, "NAME-seed0")
    if resumed is not None:
        stored = config_file.read(resumed.resume)
        from longwave import runs

        return exit_code(lambda: _report(runs.resume(stored, quiet=resumed.quiet, device=resumed.device)))
    experiment, options = parse_experiment("train", DESCRIPTION, arguments, RunOptions())
    return exit_code(lambda: _train(experiment, options))


def _train(experiment: "Experiment", options: RunOptions) -> None:
    from longwave import runs

    seeds = options.seeds or (experiment.loop.seed,)
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"--seeds: expected each seed once, got {' '.join(map(str, seeds))}")
    base = options.out or Path("runs") / experiment.run_name
    folders = {seed: base.parent / f"{base.name}-seed{seed}" for seed in seeds}
    if options.out and len(seeds) == 1:
        folders = {seeds[0]: base}
    how: dict[str, Any] = {"quiet": options.quiet, "overwrite": options.overwrite, "device": options.device}
    results = [_report(finished) for finished in runs.start_seeds(experiment, folders, options.data_dir, **how)]
    if len(results) > 1 and runs.is_main_process():
        from longwave.tasks.base import scored_split

        print(f"seeds {', '.join(map(str, seeds))}:")
        split, where = scored_split(results[0])
        for score in results[0][split]:
            print(f"  {where} {score} {mean_text([result[split][score] for result in results])}")
        each = [result.get("intervals", {}).get("this run", {}) for result in results]
        for level, names in each[0].items():
            for name in names if all(level in one for one in each) else ():
                print(f"  {where} {name} at {level} % {mean_text([one[level][name] for one in each])}")


def exit_code(work: Callable[[], object]) -> int:
    """Run `work` and return an exit code: 0, 1 if a run failed, 128 plus the signal if it was interrupted."""
    from longwave import runs
    from longwave.train.loop import Interrupted, TrainingError

    code = 0
    try:
        work()
    except TrainingError as error:
        say(f"longwave: the run failed: {error}")
        code = 1
    except Interrupted as note:
        if runs.is_main_process():
            say(f"longwave: {note}")
        code = note.exit_code
    runs.leave_processes()
    return code


def _report(finished: Any) -> dict[str, Any]:
    """Print the table of a finished run and the path of its report."""
    result: dict[str, Any] = finished.result
    if finished.main:
        print_scores(finished.experiment.title, result)
        print(f"report: {(finished.folder / 'report.html').resolve()}")
    return result


def print_scores(name: str, result: dict[str, Any]) -> None:
    """Print scores on the test set: of the run, the baselines and the paper."""
    from longwave.core.text_table import TextTable
    from longwave.pictures.html import duration
    from longwave.report.page import score_table
    from longwave.tasks.base import scored_split

    trained = f"{result['steps']} steps in {duration(result['seconds'])}, weights of step {result['best_step']}"
    notes = [f"{result['parameters']:,} parameters, {trained}", *(f"note: {note}" for note in result.get("notes", ()))]
    TextTable(f"{name}, {scored_split(result)[1]} set", *score_table(result), notes, text=("model",), bold=(0,)).print()
    print_intervals(name, result)


def print_intervals(name: str, result: dict[str, Any]) -> None:
    """How prediction intervals did, if there are any."""
    from longwave.core.text_table import TextTable
    from longwave.report.page import interval_table
    from longwave.tasks.base import scored_split

    head, rows = interval_table(result)
    if rows:
        own = [k for k, row in enumerate(rows) if row[0] == "this run"]
        title = f"{name}, prediction intervals, {scored_split(result)[1]} set"
        TextTable(title, head, rows, text=head[:1], bold=own).print()


def mean_text(values: list[float]) -> str:
    """Format the score of one seed, or mean and standard deviation of several."""
    spread = f" +- {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{spread}"
