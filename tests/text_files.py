"""WikiText-2 in miniature, in the format of the published files: a space before each line, words between spaces."""

from pathlib import Path

LINES = {
    "train": ["", "= Sea =", "", "the sea is wide , the sea is <unk> .", "a river @-@ boat <unk> the café ."] * 6,
    "valid": ["", "the boat is wide ."] * 3,
    "test": ["", "the river is <unk> , a sea is wide ."] * 3,
}


def write_wikitext2(data: Path) -> Path:
    folder = data / "wikitext-2"
    folder.mkdir(parents=True)
    for part, lines in LINES.items():
        (folder / f"wiki.{part}.tokens").write_bytes("".join(f" {line} \n" for line in lines).encode())
    return folder
