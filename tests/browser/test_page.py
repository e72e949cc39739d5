"""The page of examples/browser, in headless Chromium: onnxruntime-web streams digits as the model does.

`make test-browser` installs the npm packages and runs this; Chromium and node have to be there.
"""

import contextlib
import functools
import http.server
import json
import os
import shutil
import subprocess
import threading

import numpy as np
import pytest
import torch
from dense import ROOT

import longwave

PAGE = ROOT / "examples" / "browser"
DIGITS = ROOT / "tests" / "models" / "smnist"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = [
    what
    for what, is_there in {
        "Chromium": CHROMIUM,
        "node": shutil.which("node"),
        "the npm packages (make test-browser installs them)": (PAGE / "node_modules" / "playwright-core").exists(),
    }.items()
    if not is_there
]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"no {', no '.join(MISSING)}"),
    pytest.mark.timeout(200),
]
SHOWN = 8  # the digit that the screenshot shows


class Quiet(http.server.SimpleHTTPRequestHandler):
    def guess_type(self, path):
        return "text/javascript" if str(path).endswith(".mjs") else super().guess_type(path)

    def log_message(self, *_):
        """Requests are not printed."""


@contextlib.contextmanager
def served(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/index.html"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def drive(address, which, *picture):
    """What the page shows after it has streamed a sequence."""
    command = ["node", ROOT / "tests" / "browser" / "drive.mjs", address, str(which), *picture]
    environment = {**os.environ, "PAGE_FOLDER": str(PAGE), "CHROMIUM": CHROMIUM}
    result = subprocess.run(command, capture_output=True, text=True, timeout=150, env=environment)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def digits():
    """x (200, 784, 1) as in training."""
    with np.load(DIGITS / "digits.npz") as file:
        return (file["pixels"].reshape(200, 784, 1).astype(np.float32) - file["mean"]) / file["deviation"]


@pytest.fixture
def page(tmp_path, digits):
    """A folder with the page, a model of digits as blocks of 16 steps, and some digits."""
    pytest.importorskip("onnx")
    model = longwave.load_model(DIGITS)
    longwave.export(model, tmp_path / "model.onnx", form="blocks", length=16)
    sequences = {"x": digits[:10].tolist(), "width": 28, "classes": [str(k) for k in range(10)]}
    (tmp_path / "sequences.json").write_text(json.dumps(sequences))
    shutil.copy(PAGE / "index.html", tmp_path)
    (tmp_path / "node_modules").symlink_to(PAGE / "node_modules")
    return tmp_path


def test_the_page_streams_a_digit_as_the_model_does(page, digits):
    picture = os.environ.get("LONGWAVE_SCREENSHOT")  # where to keep what it looks like, for the documentation
    with served(page) as address:
        shown = drive(address, SHOWN, *([picture] if picture else []))
    assert shown["state"] == "done", shown["said"]
    assert shown["said"].startswith("step 784 of 784: ")
    assert "µs per step in blocks of 16" in shown["said"]
    model, x = longwave.load_model(DIGITS).eval(), torch.from_numpy(digits[SHOWN : SHOWN + 1])
    with torch.no_grad():
        stream = longwave.stream(model)
        expected = stream.push(x)[0].numpy()
    found = np.array(shown["outputs"])
    assert found.shape == expected.shape == (784, 10)
    assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


def test_the_page_says_what_is_wrong_with_its_files(page):
    described = json.loads((page / "model.json").read_text())
    (page / "model.json").write_text(json.dumps({**described, "form": "whole"}))
    with served(page) as address:
        shown = drive(address, 0)
    assert shown["state"] == "failed"
    assert "expected a graph of the form blocks, got whole" in shown["said"]
