"""The compiled library: which file is loaded, and how wide its vectors may be."""

import pytest
import torch
from dense import run_python

from longwave import ops
from longwave.core import native
from longwave.ops import Unavailable
from longwave.ops.cpu import kernel, library


@pytest.fixture
def widest(compiled):
    """Gives the CPU's vector width, and the library as it was before."""
    loaded, before = library.load(), library.vector_bits()
    loaded.longwave_limit_vectors(max(native.VECTOR_BITS))
    yield library.vector_bits()
    loaded.longwave_limit_vectors(before)


@pytest.mark.parametrize("bits", native.VECTOR_BITS)
def test_the_environment_bounds_the_vector_width_of_every_call(widest, bits, monkeypatch):
    """A bound wider than the CPU's vectors changes nothing. Sums of other widths are rounded otherwise: a call
    gives the bits of the narrowest vectors at 128 bits, and else not.
    """
    monkeypatch.setenv("LONGWAVE_VECTOR_BITS", str(bits))
    library.load.__wrapped__()
    assert library.vector_bits() == min(bits, widest)
    y = ops.convolve(torch.ones(1, 40, 64), torch.ones(1, 64, 40), torch.zeros(64))
    assert y[0, -1, 0].item() == pytest.approx(40, rel=1e-6)
    system = [torch.randn(*shape, 2) for shape in ((2, 8), (1, 2, 8), (2, 8), (1, 2, 8))]
    system[0][..., 0] = -1
    grad, dt = torch.randn(1, 2, 301, 2), torch.full((2,), 0.01)
    found = kernel.spectrum_backward(grad, *system, dt, 600)[0]
    library.load().longwave_limit_vectors(128)
    narrow = kernel.spectrum_backward(grad, *system, dt, 600)[0]
    assert torch.equal(found, narrow) == (min(bits, widest) == 128)


@pytest.mark.slow
def test_the_environment_bounds_the_vector_width_of_a_new_process(widest):
    code = "from longwave.ops.cpu import library; print(library.vector_bits())"
    result = run_python(code, LONGWAVE_VECTOR_BITS="128")
    assert result.stdout == "128\n", result.stderr


@pytest.mark.parametrize("nonsense", ["64", "1024", "avx2", " 256", "-128"])
def test_an_unknown_vector_width_is_refused_with_the_known_ones(monkeypatch, nonsense):
    monkeypatch.setenv("LONGWAVE_VECTOR_BITS", nonsense)
    with pytest.raises(ValueError, match=f"LONGWAVE_VECTOR_BITS: expected one of 128, 256, 512, got {nonsense!r}"):
        library.load.__wrapped__()


def test_a_library_of_an_older_install_is_not_looked_at(monkeypatch, tmp_path):
    """Those were named for a version of Python."""
    (tmp_path / "_native.cpython-311-x86_64-linux-gnu.so").write_bytes(b"not a library")
    monkeypatch.setattr(native, "FOLDER", tmp_path)
    with pytest.raises(Unavailable, match="no compiled library"):
        library.load.__wrapped__()
