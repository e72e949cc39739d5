"""`longwave predict RUN --csv new.csv`: what comes after the last row."""

from pathlib import Path

import tyro


def main(arguments: list[str]) -> None:
    """Run `longwave predict`."""
    tyro.cli(predict, prog="longwave predict", args=arguments)


def predict(
    run: tyro.conf.Positional[Path], csv: Path, out: Path = Path("forecast.csv"), picture: Path | None = None
) -> None:
    """Forecast the rows after the last row of a CSV file, with the best weights of a run.

    Example: longwave predict runs/forecast-seed0 --csv new.csv --out forecast.csv

    Args:
        run: Folder of the run.
        csv: The series so far, with the columns of the training series.
        out: Where to write the forecast: time stamps, if there are any, and one column for each series.
        picture: Where to draw it; by default beside `out`, as a PNG.
    """
    from longwave.report.forecast import draw_continuation
    from longwave.train import runs

    forecast = runs.predict(run, csv)
    forecast.write(out)
    picture = picture or out.with_suffix(".png")
    draw_continuation(forecast, picture)
    print(f"{len(forecast.values)} rows: {out}\npicture: {picture}")
