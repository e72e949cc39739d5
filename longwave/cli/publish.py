"""`longwave publish`: upload a trained run to the Hugging Face hub, with a model card."""

from pathlib import Path

import tyro

from longwave.train import config_file


def command(
    run: tyro.conf.Positional[Path],
    name: tyro.conf.Positional[str],
    public: bool = False,
    licence: str | None = None,
    revision: str | None = None,
    token: str | None = None,
    preview: Path | None = None,
) -> None:
    """Upload a run to the Hugging Face hub: best weights, settings, files for its data, and a model card.

    Examples:
        longwave publish runs/smnist-small-seed0 me/smnist-s4 --licence apache-2.0
        longwave publish runs/smnist-small-seed0 me/smnist-s4 --preview card/     (writes the files here instead)

    Args:
        run: Folder of the run.
        name: USER/NAME of the model on the hub; created if it does not exist.
        public: Make it public; by default it is private.
        licence: Identifier of the licence, such as apache-2.0 or cc-by-4.0; by default none.
        revision: Branch to upload to; by default the main one.
        token: Access token of the hub; by default the one that hf auth login stored.
        preview: Write the files into this new folder instead of uploading them.
    """
    stored = config_file.read(run)
    from longwave import publish
    from longwave.core import files
    from longwave.train.folder import RunFolder

    if preview is not None:
        if preview.exists():
            raise ValueError(f"--preview: {preview} exists already; expected the name of a new folder")
        with files.atomic_folder(preview) as folder:
            publish.assemble(RunFolder.open(stored), folder, name, licence)
        print(f"files: {preview}")
        return
    print(publish.push_to_hub(stored, name, private=not public, licence=licence, token=token, revision=revision))
