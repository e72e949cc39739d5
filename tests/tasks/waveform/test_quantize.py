"""Samples as codes and back."""

import numpy as np
import pytest
import soundfile

from longwave.io.audio import wav_bytes
from longwave.tasks.waveform.quantize import ENCODINGS, SILENCE, scaled


@pytest.mark.parametrize("name", ENCODINGS)
def test_what_was_decoded_is_encoded_as_the_same_code(name):
    encoding, codes = ENCODINGS[name], np.arange(256)
    np.testing.assert_array_equal(encoding.encode(encoding.decode(codes)), codes)


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_ends_and_the_middle_have_the_codes_that_they_should(name):
    encode = ENCODINGS[name].encode
    assert encode(np.array([-1.0, -1e-9, 0.0, 1.0])).tolist() == [0, 127, SILENCE, 255]
    assert (np.diff(encode(np.linspace(-1, 1, 5001)).astype(int)) >= 0).all()


def test_the_mu_law_is_its_formula():
    a = np.random.default_rng(0).uniform(-1, 1, 1000)
    e = np.sign(a) * np.log(1 + 255 * np.abs(a)) / np.log(256)
    np.testing.assert_array_equal(ENCODINGS["mu-law"].encode(a), np.floor((e + 1) / 2 * 255.99 + 0.005))


@pytest.mark.parametrize(("name", "quiet", "loud"), [("mu-law", 1.2e-4, 0.024), ("linear", 0.004, 0.004)])
def test_an_encoding_is_as_fine_as_it_says(name, quiet, loud):
    """Errors of half a code: of the mu law, near silence and at full scale; else 1/256 everywhere (and 0.01 of it)."""
    encoding = ENCODINGS[name]
    for bound, samples in ((quiet, np.linspace(-0.001, 0.001, 99)), (loud, np.linspace(-1, 1, 999))):
        assert np.abs(encoding.decode(encoding.encode(samples)) - samples).max() < bound


def test_a_clip_is_scaled_by_its_own_range_and_silence_stays_silent():
    np.testing.assert_allclose(scaled(np.float32([-0.25, 0.0, 0.75]), -0.25, 0.75), [-1, -0.5, 1])
    assert scaled(np.zeros(3), 0.0, 0.0).tolist() == [0, 0, 0]
    assert scaled(np.full(3, 0.3), 0.3, 0.3).tolist() == [0, 0, 0]


def test_a_wav_file_is_read_back(tmp_path):
    samples = np.random.default_rng(0).uniform(-1, 1, 500).astype(np.float32)
    (tmp_path / "a.wav").write_bytes(wav_bytes(samples, 8000))
    found, rate = soundfile.read(tmp_path / "a.wav")
    assert rate == 8000
    np.testing.assert_allclose(found, samples, atol=1 / 32768)
    assert wav_bytes(samples, 8000) == wav_bytes(samples, 8000)
