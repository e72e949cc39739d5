"""The bench of the layer: what takes turns, and which layer has which figure."""

import pytest
import torch

from longwave.bench import layer
from longwave.bench.layer import LayerBench


def test_steps_of_s4_and_s4d_take_turns_from_the_same_number_of_steps(monkeypatch):
    """On a busy machine a layer that is timed after the other one would be compared with another moment."""
    taken = []
    monkeypatch.setattr(
        layer, "take_steps", lambda mixer, u, state, count: taken.append((type(mixer).__name__, count)) or state
    )
    monkeypatch.setattr(layer, "TURNS", 2)
    rows = layer._steps((10, 100))
    bursts = 3 * [("S4", layer.BURST), ("S4D", layer.BURST)]  # one to warm up
    assert taken == [("S4", 10), ("S4D", 10), *bursts, ("S4", 90), ("S4D", 90), *bursts]
    assert [row["after"] for row in rows] == [10, 100]
    assert all(row[column] >= 0 for row in rows for column in layer.COLUMNS)


def test_steps_lead_to_the_state_of_the_whole_sequence():
    mixer = layer.S4D(4, 8).requires_grad_(False)
    u = torch.randn(1, 4)
    _, expected = mixer(u.expand(5, 4).unsqueeze(0))
    found = layer.take_steps(mixer, u, mixer.initial_state(1), 5)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)  # float32 by blocks and by steps


@pytest.mark.usefixtures("tiny")
def test_s4d_stands_beside_s4_in_every_table():
    bench = LayerBench()
    result = bench.run(lambda text: None)
    assert result["growth_exponents"].keys() == layer.COLUMNS.keys()
    for table in bench.tables(result):
        ours = sum(column.startswith(("S4D", "memory, S4D")) for column in table.columns)
        assert ours == (4 if "convolution" in table.columns else 1)
