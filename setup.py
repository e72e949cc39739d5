"""The optional compiled kernel; everything else about the package is in pyproject.toml.

native.cpp exports plain C functions and is opened with ctypes. It is no Python module (it has no PyInit function) and
must not be imported; it is declared as an Extension only because setuptools then compiles it and puts it in the right
place. optional=True turns a missing compiler, or one that refuses the flags, into a warning: the install goes on
without the library, and the plain torch kernel serves.
"""

import sys
from glob import glob

from setuptools import Extension, setup

COMPILE = [
    "-O3",
    "-std=c++17",
    "-ffp-contract=fast",  # -std=c++17 alone would forbid GCC to fuse multiply and add
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility=hidden",  # only what native.cpp marks is exported
]
# Apple's clang refuses -fopenmp; there the kernel runs on one thread.
OPENMP = [] if sys.platform == "darwin" else ["-fopenmp"]

native = Extension(
    "longwave.kernels._native",
    sources=["longwave/kernels/native.cpp"],
    depends=sorted(glob("longwave/kernels/*.inc")),
    extra_compile_args=COMPILE + OPENMP,
    extra_link_args=OPENMP,
    optional=True,
)

# MSVC takes neither these flags nor a library without PyInit; on Windows the plain torch kernel serves.
setup(ext_modules=[] if sys.platform == "win32" else [native])
