"""The example with Lightning runs, learns, and comes back from its checkpoint."""

import importlib.util

import pytest
import torch
from dense import ROOT

pytest.importorskip("lightning")
pytestmark = [pytest.mark.usefixtures("own_folder"), pytest.mark.filterwarnings("ignore")]  # those of Lightning


def test_the_example_learns_and_its_checkpoint_is_the_same_model():
    spec = importlib.util.spec_from_file_location("lightning_module", ROOT / "examples/lightning_module.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    module, accuracy = example.main(accelerator="cpu", enable_progress_bar=False, enable_model_summary=False)
    assert accuracy > 0.9  # 0.995 where it was written
    groups = module.trainer.optimizers[0].param_groups
    assert {group["name"]: group["lr"] for group in groups} == {"rest": 0.01, "ssm": 0.001, "dt": 0.001}
    module.trainer.save_checkpoint("module.ckpt")
    again = example.S4Module.load_from_checkpoint("module.ckpt").eval()
    x = example.tones(4, seed=2).tensors[0]
    with torch.no_grad():
        assert torch.equal(again(x), module.eval()(x))
