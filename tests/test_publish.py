"""Models on the hub: what is uploaded, the card, loading by name. A folder stands for the hub, and nothing is sent."""

import json
from pathlib import Path

import pytest
import torch
from command import call
from folder_hub import FolderHub, cached

import longwave
from longwave.layers import S4Config
from longwave.models import SequenceModel, load_model
from longwave.publish import push_to_hub


@pytest.fixture(autouse=True)
def _own_folder(own_folder):
    """Runs go to a folder of the test's own."""


@pytest.fixture
def published(trained_runs, tmp_path):
    trained_runs.fetch("tokens")
    hub = FolderHub(tmp_path / "hub")
    address = push_to_hub("run", "me/reviews", licence="cc-by-4.0", client=hub)
    assert (address, hub.made) == ("hub/me/reviews/commit", {"me/reviews": True})
    return hub.folder / "me" / "reviews"


def test_what_is_uploaded_is_the_model_with_all_that_its_data_needs(published):
    assert sorted(path.name for path in published.iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "result.json",
        "run.json",
        "tokens.json",
    ]
    assert (published / "tokens.json").read_bytes() == Path("run/tokens.json").read_bytes()
    before, after = (load_model(folder).state_dict() for folder in ("run/best", published))
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert json.loads((published / "run.json").read_text())["data_dir"] is None


def test_the_card_has_data_scores_seed_command_and_licence(published):
    card = (published / "README.md").read_text()
    _, head, body = card.split("---\n", 2)
    facts = {line.split(": ", 1)[0]: json.loads(line.split(": ", 1)[1]) for line in head.splitlines()}
    result = json.loads(Path("run/result.json").read_text())
    assert (facts["library_name"], facts["license"]) == ("longwave", "cc-by-4.0")
    assert facts["pipeline_tag"] == "text-classification"
    (found,) = facts["model-index"][0]["results"]
    assert {metric["type"]: metric["value"] for metric in found["metrics"]} == result["test"]
    command = json.loads(Path("run/config.json").read_text())["command"]
    use = ('longwave.load_model("me/reviews")', "`longwave predict me/reviews --help`")
    for text in (f"`{command}`, seed 0", "## Data", "class prior", *use, "cc-by-4.0"):
        assert text in body
    assert "longwave generate" not in body


def test_a_model_is_found_by_its_name_on_the_hub(published, tmp_path):
    cached(published, tmp_path / "cache", "me/reviews")
    where = {"cache_dir": tmp_path / "cache", "local_files_only": True}
    model = longwave.load_model("me/reviews", **where)
    other = SequenceModel.from_pretrained("me/reviews", revision="main", **where)
    known = load_model("run/best").state_dict()
    for found in (model, other):
        assert all(torch.equal(known[name], tensor) for name, tensor in found.state_dict().items())


def test_a_folder_that_exists_wins_over_a_name_on_the_hub(published, tmp_path):
    cached(published, tmp_path / "cache", "me/reviews")
    model = SequenceModel(d_model=4, n_layers=1, input_size=1, output_size=1, mixer=S4Config(d_state=4))
    model.save_pretrained("me/reviews")
    found = longwave.load_model("me/reviews", cache_dir=tmp_path / "cache", local_files_only=True)
    assert found.config.d_model == 4


def test_loading_from_the_hub_is_strict(published, tmp_path):
    config = json.loads((published / "config.json").read_text())
    config["config"]["n_layers"] = 2
    (published / "config.json").write_text(json.dumps(config))
    cached(published, tmp_path / "cache", "me/reviews")
    with pytest.raises(ValueError, match=r"the weights do not fit the config.json beside them"):
        longwave.load_model("me/reviews", cache_dir=tmp_path / "cache", local_files_only=True)


def test_a_model_that_is_nowhere_is_named(tmp_path):
    with pytest.raises(ValueError, match="me/nothing: no such folder, and no such model among the downloaded models"):
        longwave.load_model("me/nothing", cache_dir=tmp_path, local_files_only=True)
    with pytest.raises(ValueError, match=r"nowhere/at/all.config.json: expected the config.json of a longwave model"):
        longwave.load_model("nowhere/at/all")


def test_a_model_that_is_uploaded_over_a_run_leaves_no_settings_of_the_run(published, tmp_path):
    """Else its vocabulary and scales would be taken for those of the new weights."""
    model = SequenceModel(d_model=4, n_layers=1, input_size=1, output_size=1, mixer=S4Config(d_state=4))
    model.push_to_hub("me/reviews", private=False, client=FolderHub(tmp_path / "hub"))
    assert not (published / "run.json").exists()
    assert load_model(published).config.d_model == 4


def test_mistakes_are_named_before_anything_is_sent(trained_runs, tmp_path):
    trained_runs.fetch("tokens")
    hub = FolderHub(tmp_path / "hub", OSError("401 Client Error\nsecond line"))
    with pytest.raises(ValueError, match="name: expected USER/NAME"):
        push_to_hub("run", "reviews", client=hub)
    with pytest.raises(ValueError, match="licence: expected a hub identifier"):
        push_to_hub("run", "me/reviews", licence="do what you like", client=hub)
    with pytest.raises(ValueError, match=r"the hub refused the upload \(401 Client Error\); log in"):
        push_to_hub("run", "me/reviews", client=hub)
    Path("run/result.json").write_text('{"test": {}}')
    with pytest.raises(ValueError, match=r"result\.json: expected the scores of a finished run"):
        push_to_hub("run", "me/reviews", client=hub)
    Path("run/result.json").unlink()
    with pytest.raises(ValueError, match="run: expected a finished run"):
        push_to_hub("run", "me/reviews", client=hub)
    assert not hub.folder.exists()


def test_the_command_shows_what_it_would_upload(trained_runs, capsys):
    trained_runs.fetch("causal")
    assert call("publish", "run", "me/slopes", "--preview", "files") == 0
    assert capsys.readouterr().out == "files: files\n"
    assert "Not stated." in Path("files/README.md").read_text()
    assert not list(Path("files").glob("*.npz"))  # the data stays here
    assert call("publish", "run", "slopes") == 2
    assert "name: expected USER/NAME" in capsys.readouterr().err
