"""The paper's claims about its forecasts, counted: in its own tables, and in the settings that were run here."""

from collections.abc import Iterable

from results_data import Line, Results

Errors = dict[str, float]  # the MSE of a model by setting, such as informer-s.etth1-24
INFORMERS = ("Informer", "Informer†")  # the second with full attention
MODELS = {  # the tables of measured.csv that have them
    "forecasting-paper": "the paper's model here",
    "forecasting-default": "the default forecaster",
}


def forecasting(results: Results) -> list[list[str]]:
    """A row for each claim, with what the paper's tables say of it, and the settings that were run."""
    quoted: dict[str, Errors] = {}
    for line in results.paper.values():
        if line["table"] in ("tab:informer-s", "tab:informer-m") and line["metric"] == "MSE":
            quoted.setdefault(line["model"], {})[_setting(line)] = float(line["value"])
    s4 = quoted.pop("S4")
    longest = {setting.rsplit("-", 1)[0]: setting for setting in s4}.values()  # the last of each set

    def better(of: Errors, settings: Iterable[str], rivals: Iterable[str]) -> str:
        run = [setting for setting in settings if setting in of]
        least = [min(quoted[rival].get(setting, 1e9) for rival in rivals) for setting in run]
        return f"{sum(of[s] < error for s, error in zip(run, least, strict=True))} of {len(run)}"

    def reduction(of: Errors, setting: str = "informer-s.weather-720") -> str:
        return f"{1 - of[setting] / quoted['Informer'][setting]:.0%}" if setting in of else "not run"

    measured: dict[str, Errors] = {table: {} for table in MODELS}
    for line in results.measured:
        if line["table"] in MODELS and line["metric"] == "MSE":
            measured[line["table"]][_setting(line)] = float(line["value"])
    models = [s4, *measured.values()]
    return [
        ["lowest MSE of all models: 40 of 50", *(better(of, s4, quoted) for of in models)],
        ["lower MSE than both Informers", *(better(of, s4, INFORMERS) for of in models)],
        ["the same at the longest horizon of each set: all", *(better(of, longest, INFORMERS) for of in models)],
        ["37 % less MSE than Informer on Weather, 720", *map(reduction, models)],
    ]


def _setting(line: Line) -> str:
    """That of the id of a number, such as informer-s.etth1-24.mse."""
    return ".".join(line["id"].split(".")[:2])
