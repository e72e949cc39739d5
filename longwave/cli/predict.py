"""`longwave predict RUN`: what comes after the last row of a series, or the labels of sequences."""

from pathlib import Path

import tyro


def main(arguments: list[str]) -> None:
    """Run `longwave predict`."""
    tyro.cli(predict, prog="longwave predict", args=arguments)


def predict(
    run: tyro.conf.Positional[Path],
    csv: Path | None = None,
    npz: Path | None = None,
    out: Path | None = None,
    picture: Path | None = None,
) -> None:
    """Say what the best weights of a run make of new data: forecast a series, or label sequences.

    A run that forecasts takes the series so far, and writes the rows that follow. A run that classifies takes
    sequences as in training, with or without labels, and writes for each its label and the probability of each class.

    Example: longwave predict runs/forecast-seed0 --csv new.csv --out forecast.csv

    Example: longwave predict runs/classify-seed0 --npz new.npz --out labels.csv

    Args:
        run: Folder of the run.
        csv: The series so far, with the columns of the training series; or sequences, one a row.
        npz: Sequences (x, and lengths if they differ); images as pixels from 0 to 255, row by row.
        out: Where to write; by default forecast.csv or labels.csv.
        picture: Where to draw a forecast; by default beside `out`, as a PNG.
    """
    from longwave.train import predict
    from longwave.train.config import ClassifyConfig, DensityConfig, ForecastConfig, TextConfig, from_dict
    from longwave.train.runs import read_config

    task = from_dict(read_config(run)["experiment"]).task
    if isinstance(task, TextConfig | DensityConfig):
        raise ValueError(f"{run} is a run that generates: use longwave generate {run}")
    if isinstance(task, ForecastConfig):
        if csv is None or npz is not None:
            raise ValueError(f"{run} is a run that forecasts: expected --csv FILE with the series so far, and no --npz")
        from longwave.report.forecast import draw_continuation
        from longwave.report.pictures import check_path

        out = out or Path("forecast.csv")
        picture = picture or out.with_suffix(".png")
        _keep_apart(csv=csv, out=out, picture=picture)
        check_path(picture)
        forecast = predict.forecast(run, csv)
        forecast.write(out)
        draw_continuation(forecast, picture)
        for note in forecast.notes:
            print(f"note: {note}")
        rows = len(forecast.values)
        print(f"{rows} row{'s' * (rows > 1)}: {out}\npicture: {picture}")
        return
    if (csv is None) == (npz is None) or picture is not None:
        raise ValueError(f"{run} is a run that classifies: expected --npz FILE or --csv FILE, and no --picture")
    from longwave.tasks import sequences

    out = out or Path("labels.csv")
    _keep_apart(csv=csv, npz=npz, out=out)
    if npz is not None:
        new = sequences.read_npz(npz, labelled=False)
    else:
        assert csv is not None
        names = (task.label, task.part) if isinstance(task, ClassifyConfig) else ("label", None)
        new = sequences.read_csv(csv, *names, labelled=False)
    labels = predict.classify(run, new)
    labels.write(out)
    for note in labels.notes:
        print(f"note: {note}")
    print(f"{len(labels.labels)} rows: {out}")


def _keep_apart(**paths: Path | None) -> None:
    """Refuse one file in two roles: what is read would be written over."""
    seen: dict[Path, str] = {}
    for role, path in paths.items():
        if path is None:
            continue
        other = seen.setdefault(path.expanduser().resolve(), role)
        if other != role:
            raise ValueError(f"--{role}: {path} is also --{other}; name another file")
