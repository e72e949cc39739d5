"""Publish a trained run on the Hugging Face hub: weights, settings, files for its data, and a model card."""

from pathlib import Path
from typing import Any

from longwave.core import files
from longwave.models import hub
from longwave.report.card import model_card
from longwave.train.folder import RunFolder, RunPlace, with_resume_command
from longwave.train.trained import MemoryRun


def push_to_hub(
    run: RunPlace,
    name: str,
    *,
    private: bool = True,
    licence: str | None = None,
    token: str | None = None,
    revision: str | None = None,
    client: Any = None,
) -> str:
    """Upload the best weights of a finished run as the hub's "user/name"; the address that the hub gives them.

    `client` is a huggingface_hub.HfApi, by default one that logs in with `token`, or as `hf auth login` has stored it.
    """
    opened = RunFolder.open(run, published=False)
    where = {"token": token, "revision": revision, "client": client}
    return hub.push(
        lambda folder: assemble(opened, folder, name, licence), name, private=private, licence=licence, **where
    )


def assemble(run: RunFolder | MemoryRun, folder: Path, name: str, licence: str | None = None) -> None:
    """Write the files to upload into a folder: the model, run.json, result.json, artifacts and README.md."""
    result = run.result()
    if result is None:
        raise ValueError(with_resume_command(f"{run.path}: expected a finished run; resume with", run.path))
    run.load_best().save_pretrained(folder)  # read and written again, so that damaged weights are not uploaded
    settings = run.config.to_dict() | {"data_dir": None}  # paths of this machine stay private
    files.write_json(folder / hub.RUN, settings)
    files.write_json(folder / "result.json", result)
    for artifact in (*run.config.artifacts, *result.get("files", ())):
        files.write_bytes(folder / Path(artifact).name, run.artifact(Path(artifact).name))
    files.write_text(folder / "README.md", model_card(run, result, name, licence))
