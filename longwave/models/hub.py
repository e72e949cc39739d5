"""Models on the Hugging Face hub: files are downloaded once, checked like local ones, and never run."""

import json
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from longwave.core import extras, files

# Of a model and what it needs; nothing else is fetched.
FILES = ("*.json", "*.safetensors", "*.npz", "*.txt", "README.md")
RUN = "run.json"  # the settings of the run that a model is from
NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
USE = """```python
import longwave

model = longwave.load_model("{name}").eval()
```"""


@extras.named()
def find(
    name: str | Path,
    *,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    token: str | None = None,
    local_files_only: bool = False,
) -> Path:
    """The folder of a model: `name` itself if there is such a folder, else that of the hub's "user/name".

    A Path is always a folder, and so is "runs/name". `revision` is a branch, tag or commit; with `local_files_only`
    nothing is downloaded, and what an earlier call has left in `cache_dir` (default: the hub's own) is taken.
    """
    if isinstance(name, Path) or Path(name).exists() or name.startswith("runs/") or not NAME.fullmatch(name):
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
        if getattr(error, "errno", None) in files.FULL:
            raise
        where = "among the downloaded models" if local_files_only else "on the Hugging Face hub"
        reason = str(error).strip().partition("\n")[0]
        raise ValueError(f"{name}: no such folder, and no such model {where} ({reason})") from error
    return Path(str(found))


@extras.named()
def push(
    write: Callable[[Path], None],
    name: str,
    *,
    private: bool,
    licence: str | None,
    token: str | None = None,
    revision: str | None = None,
    client: Any = None,
) -> str:
    """Upload the files that `write` puts into a folder as the hub's "user/name", created if needed; returns the URL.

    A name or a licence that the hub does not know is refused before anything is written or sent.
    """
    if not NAME.fullmatch(name):
        raise ValueError(f"name: expected USER/NAME, of letters, digits, '-', '_' and '.', got {name!r}")
    if licence is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", licence):
        raise ValueError(f"licence: expected a hub identifier, such as apache-2.0 or cc-by-4.0, got {licence!r}")
    with tempfile.TemporaryDirectory(prefix="longwave-", ignore_cleanup_errors=True) as folder:
        write(Path(folder))
        from huggingface_hub import HfApi

        client = client or HfApi(token=token, library_name="longwave")
        try:
            client.create_repo(name, private=private, exist_ok=True)
            done = client.upload_folder(
                repo_id=name,
                folder_path=Path(folder),
                revision=revision,
                commit_message="Upload with longwave",
                delete_patterns=[RUN],  # that of an earlier upload, unless this one brings its own
            )
        except OSError as error:
            reason = str(error).strip().partition("\n")[0]
            raise ValueError(
                f"{name}: the hub refused the upload ({reason}); log in with hf auth login, or use another token or "
                "name"
            ) from error
    return str(getattr(done, "commit_url", done))


def card(
    title: str,
    sections: Mapping[str, str],
    name: str,
    licence: str | None,
    facts: Mapping[str, Any] | None = None,
    commands: Sequence[str] = (),
) -> str:
    """The model card (README.md): metadata for the hub, sections, usage and licence.

    `commands` of longwave are those that take the name of the model.
    """
    head: dict[str, Any] = {"library_name": "longwave", "tags": ["state-space-model", "s4", "long-sequences"]}
    if licence is not None:
        head["license"] = licence
    # JSON is YAML, too, and quotes what has to be quoted.
    lines = "".join(
        f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in {**head, **(facts or {})}.items()
    )
    use = [USE.format(name=name), *(f"`longwave {command} {name} --help`" for command in commands)]
    ends = {"Use": "\n\n".join(use), "Licence": licence or "Not stated."}
    body = "\n\n".join(f"## {section}\n\n{text}" for section, text in {**sections, **ends}.items())
    return f"---\n{lines}---\n\n# {title}\n\n{body}\n"
