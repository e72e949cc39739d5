"""Models on the Hugging Face hub: files are downloaded once and kept, checked as any others, and none is ever run."""

import re
from pathlib import Path

FILES = (
    "*.json",
    "*.safetensors",
    "*.npz",
    "*.txt",
    "README.md",
)  # of a model and what it needs; nothing else is fetched
NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def find(
    name: str | Path,
    *,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    token: str | None = None,
    local_files_only: bool = False,
) -> Path:
    """The folder of a model: `name` itself if there is such a folder, else that of the hub's "user/name".

    A Path is always a folder. `revision` is a branch, tag or commit; with `local_files_only` nothing is downloaded, and
    what an earlier call has left in `cache_dir` (default: the hub's own) is taken.
    """
    if isinstance(name, Path) or Path(name).exists() or not NAME.fullmatch(name):
        return Path(name)
    from huggingface_hub import snapshot_download  # slow to import, and seldom needed
    from huggingface_hub.errors import HFValidationError

    try:
        found = snapshot_download(
            name,
            revision=revision,
            cache_dir=cache_dir,
            token=token,
            local_files_only=local_files_only,
            allow_patterns=list(FILES),
        )
    except (OSError, HFValidationError) as error:
        where = "among the models that were downloaded before" if local_files_only else "on the Hugging Face hub"
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"{name}: there is no such folder, nor such a model {where} ({reason})") from error
    return Path(str(found))
