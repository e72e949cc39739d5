#!/usr/bin/env bash
# tests/busy.sh PYTHON ARGUMENT ...: runs PYTHON as on an older machine that has other work, too.
#
# Older: no vectors wider than AVX2's, in torch, oneDNN, MKL, numpy and longwave. Sums then run in another order, and
# a tolerance that only holds on one CPU shows. Busy: one process a core that never waits.
set -euo pipefail

if grep -qsw avx2 /proc/cpuinfo; then
    export ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 LONGWAVE_VECTOR_BITS=256
    # numpy warns of a name that it does not know or that the CPU does not have.
    NPY_DISABLE_CPU_FEATURES=$("$1" -c '
import numpy
umath = (numpy._core if hasattr(numpy, "_core") else numpy.core)._multiarray_umath
wide = [name for name in umath.__cpu_dispatch__ if name.startswith(("X86_V4", "AVX512"))]
print(*[name for name in wide if umath.__cpu_features__[name]])')
    export NPY_DISABLE_CPU_FEATURES
fi

busy=()
trap 'kill "${busy[@]}" 2>/dev/null || true' EXIT
for ((core = 0; core < $(getconf _NPROCESSORS_ONLN); ++core)); do
    # Ends by itself, too, when this script was killed in a way that leaves it no time to clean up.
    (while kill -0 $$ 2>/dev/null; do for ((n = 0; n < 100000; ++n)); do :; done; done) &
    busy+=($!)
done
"$@"
