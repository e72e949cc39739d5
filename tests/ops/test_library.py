"""The compiled library: which file is loaded, and how wide its vectors may be."""

import pytest
from dense import run_python

from longwave.ops import Unavailable
from longwave.ops.cpu import library

WIDTH = """
import torch
from longwave import ops
from longwave.ops.cpu import library, spectrum

torch.manual_seed(0)
u, K = torch.ones(1, 40, 64), torch.ones(1, 64, 40)
system = [torch.randn(*shape, 2) for shape in ((2, 8), (1, 2, 8), (2, 8), (1, 2, 8))]
system[0][..., 0] = -1
grad, dt = torch.randn(1, 2, 301, 2), torch.full((2,), 0.01)
narrow, *others = [spectrum.spectrum_backward(grad, *system, dt, 600, vector_bytes=n)[0] for n in (16, 0, 32, 64)]
print(library.vector_bits(), ops.convolve(u, K, torch.zeros(64))[0, -1, 0].item())
print(all(torch.equal(narrow, other) for other in others))
library.load().longwave_limit_vectors(512)
print(library.vector_bits())
"""


@pytest.mark.parametrize("bits", library.VECTOR_BITS)
def test_the_environment_bounds_the_vector_width_of_every_call(compiled, bits):
    """A bound wider than the CPU's vectors changes nothing. Sums of other widths are rounded otherwise: at 128 bits a
    call that asks for more gives the bits of the narrow one, and else not.
    """
    result = run_python(WIDTH, LONGWAVE_VECTOR_BITS=str(bits))
    width, y, is_narrow, widest = result.stdout.split()
    assert int(width) == min(bits, int(widest)), result.stderr
    assert float(y) == pytest.approx(40, rel=1e-6)
    assert (is_narrow == "True") == (int(width) == 128)


@pytest.mark.parametrize("nonsense", ["64", "1024", "avx2", " 256", "-128"])
def test_an_unknown_vector_width_is_refused_with_the_known_ones(monkeypatch, nonsense):
    monkeypatch.setenv("LONGWAVE_VECTOR_BITS", nonsense)
    with pytest.raises(ValueError, match=f"LONGWAVE_VECTOR_BITS: expected one of 128, 256, 512, got {nonsense!r}"):
        library.load.__wrapped__()


def test_a_library_of_an_older_install_is_not_looked_at(monkeypatch, tmp_path):
    """Those were named for a version of Python."""
    (tmp_path / "_native.cpython-311-x86_64-linux-gnu.so").write_bytes(b"not a library")
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    with pytest.raises(Unavailable, match="no compiled library"):
        library.load.__wrapped__()
