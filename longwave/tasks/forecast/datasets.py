"""The tables that forecasting papers use: ETT, and two that the authors of Informer prepared."""

from pathlib import Path

from longwave.io.download.catalogue import DATASETS, CsvFile, Dataset, File, Source

EMBEDDED = Path(__file__).parent / "embedded"  # copies that come with the package


def _ett(name: str, title: str, size: int, sha256: str, embedded: Path | None = None) -> Dataset:
    path = f"ETT-small/{name}.csv"
    source = Source((f"https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/{path}",), path, size, sha256)
    check = File(path, size, f"sha256:{sha256}")
    return Dataset(title, "CC BY-ND 4.0", path, (source,), (check,), embedded)


def _informer(
    name: str, title: str, licence: str, drive_id: str, size: int, columns: tuple[str, ...], rows: int
) -> Dataset:
    """The two tables that Informer's authors prepared; the second address is a mirror of the PaddleTS project."""
    urls = (
        f"https://drive.google.com/uc?export=download&id={drive_id}",
        f"https://bj.bcebos.com/paddlets/{name}.csv",
    )
    path = f"informer/{name}.csv"
    return Dataset(title, licence, path, (Source(urls, path, size, None),), (CsvFile(path, columns, rows),))


DATASETS.register("etth1")(
    _ett(
        "ETTh1",
        "ETTh1: transformer temperature, hourly",
        2_589_657,
        "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066",
        EMBEDDED / "ETTh1.csv.gz",
    )
)
DATASETS.register("etth2")(
    _ett(
        "ETTh2",
        "ETTh2: transformer temperature, hourly",
        2_417_960,
        "a3dc2c597b9218c7ce1cd55eb77b283fd459a1d09d753063f944967dd6b9218b",
    )
)
DATASETS.register("ettm1")(
    _ett(
        "ETTm1",
        "ETTm1: transformer temperature, 15 minutes",
        10_360_719,
        "6ce1759b1a18e3328421d5d75fadcb316c449fcd7cec32820c8dafda71986c9e",
    )
)
DATASETS.register("weather")(
    _informer(
        "WTH",
        "Weather (Informer): 12 measurements, hourly",
        "NOAA observations",
        "1UBRz-aM_57i_KCC-iaSWoKDPTGGv6EaG",
        2_100_000,
        # The misspelling is the file's.
        (
            "date",
            "Visibility",
            "DryBulbFarenheit",
            "DryBulbCelsius",
            "WetBulbFarenheit",
            "DewPointFarenheit",
            "DewPointCelsius",
            "RelativeHumidity",
            "WindSpeed",
            "WindDirection",
            "StationPressure",
            "Altimeter",
            "WetBulbCelsius",
        ),
        35_064,
    )
)
DATASETS.register("ecl")(
    _informer(
        "ECL",
        "ECL (Informer): electricity of 321 clients, hourly",
        "CC BY 4.0 (UCI)",
        "1rUPdR7R2iWFW-LMoDdHoO2g4KgnkpFzP",
        95_600_000,
        ("date", *(f"MT_{client:03d}" for client in range(321))),
        26_304,
    )
)
