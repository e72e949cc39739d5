"""The tables of results on the pages and in the README are those of the CSV files, and wrong lines are refused."""

import csv
import importlib.util
import re
import shutil
import sys
from types import SimpleNamespace

import pytest
from dense import ROOT

sys.path.insert(0, str(ROOT / "docs"))

import results_claims
import results_data
import results_layouts
import results_tables

LINE = {
    "id": "image.smnist",
    "table": "images",
    "row": "sMNIST, large",
    "model": "S4",
    "metric": "accuracy, %",
    "value": "99.71",
    "spread": "0.02",
    "seeds": "0 1 2",
    "command": "longwave train smnist --seeds 0 1 2",
    "commit": "0123abc",
    "machine": "xeon2",
    "threads": "2",
    "readme": "sMNIST, large model",
}


@pytest.fixture
def folder(tmp_path):
    for name in results_data.COLUMNS:
        shutil.copy(results_data.FOLDER / name, tmp_path)
    return tmp_path


def add(path, line):
    with path.open("a", encoding="utf-8", newline="") as file:
        csv.DictWriter(file, results_data.COLUMNS[path.name].lower().split(), restval="").writerow(line)


def named(path):
    return [found[2] for found in results_tables.BLOCK.finditer(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", results_tables.pages(), ids=lambda path: path.name)
def test_a_page_has_the_tables_of_the_csv_files(path):
    text = path.read_text(encoding="utf-8")
    assert results_tables.fill(text, results_data.Results()) == text, "out of date: make results"
    assert text.count("<!-- results:") == len(named(path)), "a table has no end"


def test_every_table_and_figure_of_the_paper_is_on_its_page():
    on_page = [name for name in named(ROOT / "docs/results/paper.md") if name.startswith("paper ")]
    assert sorted(on_page) == sorted({f"paper {line['table']}" for line in results_data.Results().paper.values()})


def test_every_table_of_measurements_is_on_a_page():
    on_pages = {name for path in results_tables.pages() for name in named(path)}
    assert results_layouts.LAYOUTS.keys() <= on_pages
    assert {"readme", "machines"} <= on_pages


@pytest.mark.parametrize("table", ["tab:informer-s", "tab:informer-m"])
def test_the_paper_has_s4_in_all_25_settings_of_a_forecasting_table(table):
    lines = [line for line in results_data.Results().paper.values() if (line["table"], line["model"]) == (table, "S4")]
    for metric in ("MSE", "MAE"):
        assert len({line["row"] for line in lines if line["metric"] == metric}) == 25


def test_the_paper_s_rivals_are_all_quoted_in_every_row():
    """With S4, and of tab:lra-full chance and the two versions of S4."""
    lines = [*results_data.Results().paper.values()]
    sizes = {"tab:lra": 9, "tab:lra-full": 17, "tab:informer-s-long": 8, "tab:informer-s": 9, "tab:informer-m": 7}
    for table, size in sizes.items():
        rows = {}
        for line in lines:
            if line["table"] == table:
                rows.setdefault((line["row"], line["metric"]), []).append(line["model"])
        assert all(len(models) == len(set(models)) == size for models in rows.values())


def test_a_new_line_is_shown_in_every_table_that_it_belongs_to(folder):
    add(folder / "measured.csv", LINE)
    results = results_data.Results(folder)
    for name in ("images", "readme", "paper tab:image", "paper tab:image-full"):
        table = results_tables.table(name, results)
        assert "99.71\u00a0±\u00a00.02" in table, name
        assert "99.37" in table, f"{name}: the earlier run is gone"
    assert "`longwave train smnist --seeds 0 1 2`, commit 0123abc, seeds 0 1 2, xeon2, 2 threads" in (
        results_tables.paper_table("tab:image", results)
    )


def test_a_reason_is_shown_until_there_is_a_measurement(folder):
    def row():
        table = results_tables.paper_table("tab:lra", results_data.Results(folder))
        return next(line for line in table.splitlines() if line.startswith("| Retrieval"))

    reasons = folder / "not_measured.csv"
    reasons.write_text(reasons.read_text().replace("ids,reason\n", "ids,reason\nlra.retrieval,for no reason\n"))
    assert "not measured | for no reason" in row()
    add(folder / "measured.csv", {**LINE, "id": "lra.retrieval", "table": "", "row": "Retrieval"})
    assert "99.71\u00a0±\u00a00.02" in row()
    assert "not" not in row()


def test_the_better_score_is_bold_and_empty_columns_are_left_out():
    table = results_tables.page_table("forecasting-etth1", results_data.Results())
    assert "| 720 | **0.0763**\u00a0±\u00a00.0013 | 0.116 | 0.0786 |" in table
    assert "DLinear" not in table


def test_a_cell_may_have_a_bar_and_a_unit_stays_with_its_number():
    assert results_tables.markdown(["a"], [["x | 3 ms"]]) == "| a |\n| --- |\n| x \\| 3\u00a0ms |\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "image.smnst"}, "id 'image.smnst' is not in paper.csv"),
        ({"id": "informer-s.etth1-720.mse"}, "metric 'accuracy, %', but informer-s.etth1-720.mse is 'MSE'"),
        ({"commit": ""}, "commit is missing"),
        ({"commit": "main"}, "commit 'main'; expected 7 to 40 hexadecimal digits"),
        ({"command": " "}, "command is missing"),
        ({"machine": "laptop"}, "machine 'laptop' is not in machines.csv"),
        ({"value": "99.71 %"}, "value '99.71 %' is not a number"),
        ({"value": "nan"}, "value 'nan' is not a number"),
        ({"minutes": "an hour"}, "minutes 'an hour' is not a number"),
        ({"table": "pictures"}, "table 'pictures'; expected forecasting-etth1, "),
        ({"table": "lssl"}, "table 'lssl' has no column for 'accuracy, %' of 'S4'"),
        ({"details": "epochs 10"}, "details 'epochs 10'; expected name=text"),
    ],
)
def test_a_wrong_measurement_is_refused_with_its_line(folder, change, message):
    lines = len((folder / "measured.csv").read_text(encoding="utf-8").splitlines())
    add(folder / "measured.csv", {**LINE, **change})
    with pytest.raises(ValueError, match=re.escape(f"measured.csv, line {lines + 1}: {message}")):
        results_data.Results(folder)


def test_the_same_measurement_twice_is_refused(folder):
    add(folder / "measured.csv", LINE)
    add(folder / "measured.csv", LINE)
    with pytest.raises(ValueError, match="the same measurement stands above"):
        results_data.Results(folder)


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        ("paper.csv", {"id": "image.smnist"}, "id 'image.smnist' stands there twice"),
        ("paper.csv", {"id": "new"}, "paper.csv, new: neither in measured.csv nor in not_measured.csv"),
        ("paper.csv", {"id": "new", "same_as": "lra.text"}, "same_as 'lra.text' does not have the same value"),
        ("not_measured.csv", {"ids": "lra.texts", "reason": "later"}, "'lra.texts' fits no id in paper.csv"),
        ("not_measured.csv", {"ids": "lra.text"}, "reason is missing"),
        ("machines.csv", {"key": "laptop"}, "processor is missing"),
    ],
)
def test_a_wrong_line_of_the_other_files_is_refused(folder, file, line, message):
    if file == "paper.csv":
        line = {"table": "tab:image", "row": "new", "model": "S4", "metric": "accuracy, %", "value": "1.0", **line}
    add(folder / file, line)
    with pytest.raises(ValueError, match=re.escape(message)):
        results_data.Results(folder)


def test_a_line_with_too_few_fields_or_a_file_with_other_columns_is_refused(folder):
    with (folder / "machines.csv").open("a", encoding="utf-8") as file:
        file.write("laptop,some\n")
    with pytest.raises(ValueError, match=r"machines\.csv, line \d+: expected 7 fields"):
        results_data.Results(folder)
    (folder / "machines.csv").write_text("key,cores\nxeon2,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"machines\.csv: columns \['key', 'cores'\]; expected key processor"):
        results_data.Results(folder)


@pytest.mark.parametrize("name", ["image", "paper tab:none"])
def test_a_table_that_nobody_knows_is_refused(name):
    with pytest.raises(ValueError, match="no table"):
        results_tables.table(name, results_data.Results())


def test_claims_about_forecasts_are_counted_over_the_settings_that_were_run(folder):
    known = results_data.Results(folder)
    known.measured = []
    values = (("etth1-24", "0.0915"), ("etth1-720", "0.3"), ("weather-720", "0.1795"))  # Informer: 0.092, 0.257, 0.359
    for setting, value in values:
        line = LINE | {"id": f"informer-s.{setting}.mse", "metric": "MSE", "value": value, "table": "forecasting-paper"}
        known.measured.append(line)
    best, informer, longest, weather = (row[1:] for row in results_claims.forecasting(known))
    assert best == ["36 of 50", "2 of 3", "0 of 0"]
    assert informer == ["38 of 50", "2 of 3", "0 of 0"]
    assert longest == ["10 of 10", "1 of 2", "0 of 0"]
    assert weather == ["32%", "50%", "not run"]


def test_sphinx_fills_a_page_and_reads_it_again_when_a_csv_file_changes():
    spec = importlib.util.spec_from_file_location("conf", ROOT / "docs" / "conf.py")
    conf = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conf)
    noted = []
    app = SimpleNamespace(env=SimpleNamespace(note_dependency=noted.append))
    source = ["# A page\n\n<!-- results: images -->\nold\n<!-- end of results -->\n"]
    conf._fill_results(app, "page", source)
    assert "99.37" in source[0]
    assert "old" not in source[0]
    assert len(noted) == 4
