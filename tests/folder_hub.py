"""The Hugging Face hub in a folder: what is uploaded, and what was downloaded before. Nothing is sent."""

import shutil
from pathlib import Path


class FolderHub:
    """What longwave uses of huggingface_hub.HfApi, with a folder in place of the network."""

    def __init__(self, folder, error=None):
        self.folder, self.error, self.made = Path(folder), error, {}

    def create_repo(self, name, *, private, exist_ok):
        assert exist_ok
        if self.error is not None:
            raise self.error
        self.made[name] = private

    def upload_folder(self, *, repo_id, folder_path, revision, commit_message, delete_patterns):
        for pattern in delete_patterns:
            for old in (self.folder / repo_id).glob(pattern):
                old.unlink()
        shutil.copytree(folder_path, self.folder / repo_id, dirs_exist_ok=True)
        return f"hub/{repo_id}/commit"


def cached(source, cache, name, commit="0" * 40, revision="main"):
    """The files of a model where huggingface_hub keeps those that it has downloaded."""
    home = cache / f"models--{name.replace('/', '--')}"
    shutil.copytree(source, home / "snapshots" / commit)
    (home / "refs").mkdir(exist_ok=True)
    (home / "refs" / revision).write_text(commit)
