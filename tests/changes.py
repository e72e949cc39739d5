"""How content of every format is damaged: a change takes the bytes of a file and a source of chance."""

import copy
import hashlib
import io
import json
import pickle
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from longwave.train.checkpoint import MAGIC

HUGE = 10**30
NASTY: tuple[Any, ...] = (
    *(None, True, 0, -1, 2, 2**31, 2**63, HUGE, 0.5, -1e308, 1e308, float("nan"), float("inf")),
    *("", "a", "1", "\ud800", "../../etc/passwd", "nan", [], [1], [[1]], [None], {}, {"a": 1}, {"kind": "s4"}),
)
CELLS = (
    "",
    "nan",
    "inf",
    "1e400",
    "-",
    "a",
    '"',
    "\x00",
    str(HUGE),
    "1_0",
    "٣",
    "1;2",
    "9999-12-31",
    "0000-00-00",
    "\t",
)
SHAPES = ((2**62,), (2**31, 2**31), (-1,), (HUGE,), (0, 3))  # that an array declares and does not have


class Trap:
    """Unpickled, it makes a file."""

    def __reduce__(self) -> Any:
        return open, ("sprung", "w")

    def __deepcopy__(self, memo: Any) -> "Trap":
        return self  # else the copy would be made by the above


# Changes


def bytes_(data: bytes, chance: random.Random) -> bytes:
    """Bits turned, bytes cut off, removed, put in or overwritten."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 3, 20))):
        place, size = chance.randrange(len(out) + 1), chance.choice((1, 2, 8, 100))
        what = chance.choice(("bit", "bit", "cut", "remove", "insert", "overwrite"))
        if what == "bit" and place < len(out):
            out[place] ^= 1 << chance.randrange(8)
        elif what == "cut":
            del out[place:]
        elif what == "remove":
            del out[place : place + size]
        elif what == "insert":
            out[place:place] = chance.randbytes(size)
        else:
            out[place : place + size] = chance.choice((b"\0", b"\xff")) * size
    return bytes(out)


def tree(content: Any, chance: random.Random, more: tuple[Any, ...] = ()) -> Any:
    """A value somewhere in nested lists and dicts replaced, removed or nested deeply."""
    content = copy.deepcopy(content)
    places = list(_places(content))
    for _ in range(chance.choice((1, 1, 2))):
        owner, key = chance.choice(places)
        what = chance.random()
        if what < 0.15 and isinstance(owner, dict):
            owner.pop(key, None)
        elif what < 0.2 and isinstance(owner, dict):
            owner["another"] = chance.choice(NASTY)
        elif isinstance(owner, dict) or key < len(owner):
            owner[key] = copy.deepcopy(chance.choice(NASTY + more))
    return content


def _places(content: Any) -> Any:
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        yield content, key
        if isinstance(value, dict | list):
            yield from _places(value)


def json_(data: bytes, chance: random.Random) -> bytes:
    what = chance.random()
    if what < 0.1:
        return bytes_(data, chance)
    if what < 0.15:
        return chance.choice((b"[" * 100_000, b'{"a":' * 100_000, b"1" * 5000, b"null", b"[]", b"", b"\xef\xbb\xbf{}"))
    return json.dumps(tree(json.loads(data), chance)).encode()


def lines_(data: bytes, chance: random.Random) -> bytes:
    """A line of JSON changed, removed, doubled or joined with the next."""
    lines = data.splitlines(keepends=True)
    place = chance.randrange(len(lines))
    changes: tuple[Callable[[], list[bytes]], ...] = (
        lambda: [json_(lines[place], chance) + b"\n"],
        lambda: [json.dumps(chance.choice(NASTY)).encode() + b"\n"],
        lambda: [],
        lambda: [lines[place]] * 2,
        lambda: [lines[place][:-1]],
        lambda: [bytes_(lines[place], chance)],
    )
    return b"".join([*lines[:place], *chance.choice(changes)(), *lines[place + 1 :]])


def csv_(data: bytes, chance: random.Random, mark: str = ",") -> bytes:
    """Cells replaced, lines removed, doubled, swapped, cut or lengthened."""
    lines = data.decode().splitlines()
    if chance.random() < 0.2 or len(lines) < 3:
        return bytes_(data, chance)
    for _ in range(chance.choice((1, 1, 5))):
        place = chance.randrange(len(lines))
        cells = lines[place].split(mark)
        cells[chance.randrange(len(cells))] = chance.choice(CELLS)
        changes = ([mark.join(cells)], [], [lines[place]] * 2, [lines[place] + mark + "1"], [cells[0]])
        lines[place : place + 1] = chance.choice((changes[0], changes[0], *changes))
        lines = lines or ["a"]
    return "\n".join(lines).encode()


def tsv(data: bytes, chance: random.Random) -> bytes:
    """The same of cells with tabs between them."""
    return csv_(data, chance, "\t")


def metadata(data: bytes, chance: random.Random) -> bytes:
    """Of Pathfinder: lines with spaces between their fields, or a table of strings in an array."""
    if chance.random() < 0.6:
        return csv_(data, chance, " ")
    fields = np.array([line.split() for line in data.decode().splitlines()], dtype=chance.choice(("U", "S")))
    what = chance.choice(("bytes", "shape", "object", "values", "flat", "whole"))
    if what == "object":
        buffer = io.BytesIO()
        np.save(buffer, np.array([[Trap()] * fields.shape[1]] * len(fields), dtype=object))
        return buffer.getvalue()
    if what == "shape":
        return _npy(fields, shape=chance.choice(SHAPES))
    if what == "values":
        place = chance.randrange(len(fields)), chance.randrange(fields.shape[1])
        fields[place] = chance.choice(("", "2", "../x.png", "imgs/../..")) if fields.dtype.kind == "U" else b"\xff\0a"
    if what == "flat":
        fields = fields.ravel()
    return bytes_(_npy(fields), chance) if what == "bytes" else _npy(fields)


def png(data: bytes, chance: random.Random) -> bytes:
    """Bytes, a chunk under a right checksum, or an image of another size, mode or format."""
    what = chance.choice(("bytes", "bytes", "chunk", "insert", "size", "mode", "format", "empty"))
    if what == "bytes":
        return bytes_(data, chance)
    if what in ("chunk", "insert"):
        chunks = _chunks(data)
        place = chance.randrange(len(chunks))
        name, content = chunks[place]
        if what == "chunk" and name == b"IHDR" and chance.random() < 0.5:
            content = (
                struct.pack(">II", *chance.choice(((2**31 - 1, 2**31 - 1), (0, 0), (20_000, 20_000)))) + content[8:]
            )
        bomb = b"k\0\0" + zlib.compress(bytes(1 << 26))
        other = chance.choice(
            ((b"zTXt", bomb), (b"iCCP", bomb), (b"tEXt", b""), (b"PLTE", b"\0" * 7), (b"acTL", b"\0"))
        )
        chunks[place : place + 1] = [(name, bytes_(content, chance) if content == chunks[place][1] else content)]
        if what == "insert":
            chunks[place + 1 : place + 1] = [other]
        return data[:8] + b"".join(
            struct.pack(">I", len(part)) + key + part + struct.pack(">I", zlib.crc32(key + part))
            for key, part in chunks
        )
    if what == "empty":
        return b""
    with Image.open(io.BytesIO(data)) as image:
        buffer = io.BytesIO()
        if what == "size":
            image = image.resize(chance.choice(((1, 1), (33, 32), (500, 1))))
        if what == "mode":
            image = image.convert(chance.choice(("1", "P", "RGB", "RGBA", "LA", "I;16")))
        image.save(buffer, "GIF" if what == "format" else "PNG")
    return buffer.getvalue()


def _chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """Name and content of each chunk of a PNG file."""
    found, place = [], 8
    while place < len(data):
        size = int.from_bytes(data[place : place + 4])
        found.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + size]))
        place += 12 + size
    return found


def npy(data: bytes, chance: random.Random) -> bytes:
    """Bytes, another type, an object, or a shape that is not that of the values."""
    what = chance.choice(("bytes", "type", "shape", "object"))
    if what == "bytes":
        return bytes_(data[:200], chance) + data[200:]
    values = np.load(io.BytesIO(data))
    if what == "shape":
        return _npy(values, shape=chance.choice(SHAPES))
    buffer = io.BytesIO()
    np.save(buffer, values.astype("f4") if what == "type" else np.array([Trap()] * 3, dtype=object))
    return buffer.getvalue()


def npz(data: bytes, chance: random.Random) -> bytes:
    """Members encrypted, by unknown methods, with absurd headers, other types, objects, or missing."""
    if chance.random() < 0.3:
        return bytes_(data, chance)
    with np.load(io.BytesIO(data)) as file:
        arrays = dict(file)
    name = chance.choice(sorted(arrays))
    what = chance.choice(("encrypted", "method", "lzma", "shape", "type", "object", "missing", "values", "header"))
    if what in ("type", "object", "missing", "values"):
        _change_array(arrays, name, what, chance)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        return buffer.getvalue()
    members = {f"{key}.npy": _npy(values) for key, values in arrays.items()}
    member = f"{name}.npy"
    if what == "shape":
        members[member] = _npy(arrays[name], shape=chance.choice(SHAPES))
    elif what == "header":
        members[member] = members[member][:10] + bytes_(members[member][10:128], chance) + members[member][128:]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA if what == "lzma" else zipfile.ZIP_STORED) as archive:
        for key, content in members.items():
            archive.writestr(key, content)
    out = bytearray(buffer.getvalue())
    if what == "lzma":
        place = out.find(member.encode()) + len(member) + 10
        out[place : place + 20] = chance.randbytes(20)
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = out.find(signature)
        while place >= 0 and what in ("encrypted", "method"):
            struct.pack_into("<H", out, place + flags + 2 * (what == "method"), 1 if what == "encrypted" else 99)
            place = out.find(signature, place + 4)
    return bytes(out)


def _npy(values: Any, shape: Any = None) -> bytes:
    """An array as .npy, whose header may lie about the shape."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        buffer,
        {"descr": np.lib.format.dtype_to_descr(values.dtype), "fortran_order": False, "shape": shape or values.shape},
    )
    return buffer.getvalue() + values.tobytes()


def _change_array(arrays: dict[str, Any], name: str, what: str, chance: random.Random) -> None:
    values = arrays[name]
    if what == "missing":
        del arrays[name]
    elif what == "object":
        arrays[name] = np.array([Trap()] * len(values), dtype=object)
    elif what == "type":
        kinds = ("U4", "S3", "U1") if values.dtype.kind in "US" else ("U4", "c16", "f2", "S3", "M8[s]")
        arrays[name] = values.astype(chance.choice(kinds), casting="unsafe")
    elif values.dtype.kind in "fiu":
        values = values.astype(np.float64)
        values.flat[chance.randrange(values.size)] = chance.choice((np.nan, np.inf, -1, 0, 1e300, 0.5))
        arrays[name] = values
    else:
        values = values.astype("U8")
        values.flat[chance.randrange(values.size)] = chance.choice(("\ud800", "", "nan", "3.0", "a\nb", "<b>", "$x$"))
        arrays[name] = values


def weights(data: bytes, chance: random.Random) -> bytes:
    """Bytes, the header, or tensors of other types, shapes and names in a file of their own."""
    what = chance.random()
    if what < 0.5:
        return bytes_(data, chance)
    size = int.from_bytes(data[:8], "little")
    if what < 0.7:
        text = json.dumps(tree(json.loads(data[8 : 8 + size]), chance)).encode()
        return len(text).to_bytes(8, "little") + text + data[8 + size :]
    path = Path("changed.safetensors")
    path.write_bytes(data)
    tensors = load_file(path)
    name = chance.choice(sorted(tensors))
    kinds = (torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.complex64)
    if what < 0.8:
        tensors = {key: values.to(chance.choice(kinds[:3])) for key, values in tensors.items()}
    elif what < 0.9:
        tensors[name] = tensors[name].to(chance.choice(kinds))
    elif what < 0.95:
        tensors[name] = tensors[name].flatten()[:-1].clone()
    else:
        tensors[name + "x"] = tensors.pop(name)
    save_file(tensors, path)
    return path.read_bytes()


def checkpoint(data: bytes, chance: random.Random) -> bytes:
    """Bytes, or other content under a right checksum, traps among it."""
    if chance.random() < 0.3:
        return bytes_(data, chance)
    if chance.random() < 0.2:
        return bytes_(data[: len(MAGIC) + 40], chance) + data[len(MAGIC) + 40 :]
    content = torch.load(io.BytesIO(data[len(MAGIC) + 32 :]), weights_only=True)
    more = (Trap(), torch.zeros(3), torch.full((2, 2), float("nan")), torch.zeros(0, dtype=torch.uint8))
    buffer = io.BytesIO()
    torch.save(tree(content, chance, more) if chance.random() < 0.9 else chance.choice((*NASTY, *more)), buffer)
    payload = buffer.getvalue() if chance.random() < 0.9 else pickle.dumps({"position": {}})  # not torch's
    return MAGIC + hashlib.sha256(payload).digest() + payload


def text(data: bytes, chance: random.Random) -> bytes:
    """Bytes, nothing at all, one character, another encoding, or one endless line."""
    if chance.random() < 0.4:
        return bytes_(data, chance)
    return chance.choice(
        (b"", b"\n", b"a", b"\0" * 3000, data.decode().encode("utf-16"), b"\xff\xfe" * 900, b"x" * 200_000)
    )


def state_dict(data: bytes, chance: random.Random) -> bytes:
    """Bytes, or tensors of other types, shapes, names and places, and traps, in the state dict of another program."""
    if chance.random() < 0.3:
        return bytes_(data, chance)
    tensors: dict[str, Any] = torch.load(io.BytesIO(data), weights_only=True)
    name = chance.choice(sorted(tensors))
    kinds = (torch.float64, torch.bfloat16, torch.int32, torch.complex64, torch.bool)
    changes: tuple[Callable[[Any], Any], ...] = (
        lambda t: t.to(chance.choice(kinds)),
        lambda t: t.flatten()[:-1].clone(),
        lambda t: t.unsqueeze(0),
        lambda t: t.expand(2, *t.shape),
        lambda t: t.to_sparse(),
        lambda t: torch.full_like(t, chance.choice((0, -1, 2**40)) if t.ndim == 0 else float("nan")),
        lambda t: chance.choice((*NASTY, Trap())),
    )
    tensors[name] = chance.choice(changes)(tensors[name])
    if chance.random() < 0.2:
        tensors[chance.choice((name + "x", name.replace("0", "1"), ""))] = tensors.pop(name)
    if chance.random() < 0.3:  # in a checkpoint of Lightning, which has settings beside them
        settings = chance.choice((*NASTY, Trap(), {"dt_transform": Trap()}, [{"real_transform": chance.choice(NASTY)}]))
        tensors = {"state_dict": tensors, "hyper_parameters": settings, "callbacks": {"a": Trap()}}
    buffer = io.BytesIO()
    torch.save(tensors, buffer)
    return buffer.getvalue()
