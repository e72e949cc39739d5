"""The optional compiled kernel; everything else about the package is in pyproject.toml.

native.cpp exports plain C functions and is opened with ctypes. It is no Python module (it has no PyInit function) and
must not be imported; it is declared as an Extension only because setuptools then compiles it and puts it in the right
place. optional=True turns a missing compiler, or one that refuses the flags, into a warning: the install goes on
without the library, and the plain torch kernel serves.
"""

import os
import shutil
import sys
from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

COMPILE = [
    "-O3",
    "-g0",  # Python's own flags have -g, which costs more time than all the rest, and six times the size
    "-std=c++17",
    "-ffp-contract=fast",  # -std=c++17 alone would forbid GCC to fuse multiply and add
    "-fcx-fortran-rules",  # a complex product is four real ones, without a second try where that gives NaN
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-ipa-cp-clone",  # GCC's copies of functions for arguments that are constant: 6 % of the size, and no time
    "-fvisibility=hidden",  # only what native.cpp marks is exported
]
# Apple's clang refuses -fopenmp; there the kernel runs on one thread. Its linker has no -s.
OPENMP, STRIP = ([], []) if sys.platform == "darwin" else (["-fopenmp"], ["-s"])

LIBRARY = "longwave/ops/cpu/_native.so"  # on every platform, and for every Python

native = Extension(
    "longwave.ops.cpu._native",
    sources=["longwave/ops/cpu/native.cpp"],
    depends=sorted(glob("longwave/ops/cpu/*.inc")),
    extra_compile_args=COMPILE + OPENMP,
    extra_link_args=OPENMP + STRIP,
    optional=True,
)


class BuildLibrary(build_ext):
    """Compiles the library under a name that says nothing of the Python it was compiled by."""

    def get_ext_filename(self, fullname):
        return f"{Path(*fullname.split('.'))}.so"

    def build_extension(self, ext):
        """On Windows, call GCC or Clang directly: MSVC does not have the flags and vectors that the sources use."""
        if sys.platform != "win32":
            return super().build_extension(ext)
        library = Path(self.get_ext_fullpath(ext.name))
        library.parent.mkdir(parents=True, exist_ok=True)
        self.spawn([*windows_compiler(), *COMPILE, "-shared", *ext.sources, "-o", str(library)])

    def run(self):
        # What an earlier build left, under this name or an older one, must not stand for the result of this one if the
        # compiler now fails, nor get into the wheel beside it.
        self.force = True
        for root in (self.build_lib, *(["."] if self.inplace else [])):
            for leftover in Path(root, LIBRARY).parent.glob("_native*.so"):
                leftover.unlink()
        super().run()


def windows_compiler():
    """CXX, or MinGW's g++ with its libraries linked in."""
    if "CXX" in os.environ:
        return os.environ["CXX"].split()
    if shutil.which("g++"):
        return ["g++", "-static", "-fopenmp"]
    raise CompileError("on Windows the compiled kernel needs g++ (MinGW-w64)")


class Wheel(bdist_wheel):
    """Tags the wheel for what is in it, so that one without the library is never taken for one with it."""

    def get_tag(self):
        return tag_for(Path(self.bdist_dir, LIBRARY).exists(), super().get_tag())


def tag_for(has_library, tag):
    """A library with a C ABI serves every Python 3 of its platform; without it the wheel serves every platform."""
    return ("py3", "none", tag[2] if has_library else "any")


if __name__ == "__main__":
    setup(ext_modules=[native], cmdclass={"build_ext": BuildLibrary, "bdist_wheel": Wheel})
