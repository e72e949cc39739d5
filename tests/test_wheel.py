"""What an install is made of: the wheel's tag says whether the compiled library is in it, and the loader finds it."""

import os
import runpy
import shutil
import subprocess
import sys
import zipfile

import pytest
from dense import ROOT, run_python

SOURCES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")


@pytest.fixture
def sources(tmp_path):
    """A copy to build from: a build writes into the folder that it reads."""
    folder = tmp_path / "sources"
    shutil.copytree(ROOT / "longwave", folder / "longwave", ignore=shutil.ignore_patterns("_native*", "__pycache__"))
    for name in SOURCES:
        shutil.copy(ROOT / name, folder)
    return folder


def build_wheel(sources, **environment):
    """The one wheel that pip makes of a folder, without a network."""
    out = sources.parent / "wheels"
    shutil.rmtree(out, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        out,
        sources,
    ]
    result = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    (wheel,) = out.iterdir()
    return wheel


def libraries(wheel):
    return [name for name in zipfile.ZipFile(wheel).namelist() if "_native" in name]


def test_the_tag_says_whether_the_library_is_there():
    tag_for = runpy.run_path(str(ROOT / "setup.py"))["tag_for"]
    own = ("cp311", "cp311", "linux_x86_64")
    assert tag_for(True, own) == ("py3", "none", "linux_x86_64")
    assert tag_for(False, own) == ("py3", "none", "any")


def test_a_wheel_built_without_a_compiler_fits_everywhere(sources):
    """Nor does it take up a library that an earlier build left."""
    for folder in (sources, *(sources / "build" / name for name in build_folders())):
        (folder / "longwave/ops/cpu").mkdir(parents=True, exist_ok=True)
        for name in ("_native.so", "_native.cpython-311-x86_64-linux-gnu.so"):
            (folder / "longwave/ops/cpu" / name).write_bytes(b"of an earlier build")
    wheel = build_wheel(sources, CC="false", CXX="false")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert libraries(wheel) == []


def build_folders():
    """Where setuptools puts the files of a wheel."""
    from setuptools import Distribution

    build = Distribution({"name": "longwave"}).get_command_obj("build")
    build.ensure_finalized()
    return {os.path.basename(build.build_purelib), os.path.basename(build.build_platlib)}


@pytest.mark.slow
def test_a_wheel_built_with_a_compiler_fits_every_python_of_its_platform(compiled, sources, tmp_path):
    wheel = build_wheel(sources)
    *_, python, abi, platform = wheel.name.removesuffix(".whl").split("-")
    assert (python, abi) == ("py3", "none")
    assert platform != "any"
    assert libraries(wheel) == ["longwave/ops/cpu/_native.so"]
    # Debug information made it 7.6 MB.
    assert zipfile.ZipFile(wheel).getinfo("longwave/ops/cpu/_native.so").file_size < 2_000_000
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    found = run_python("from longwave.ops.cpu import library; print(library.load()._name)", cwd=installed)
    assert found.stdout.strip() == str(installed / "longwave/ops/cpu/_native.so"), found.stderr
