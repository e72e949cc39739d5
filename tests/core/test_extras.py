"""A plain install has the layers, the models and a command line that answers; errors name the extra for the rest."""

import tomllib

import pytest
from dense import ROOT, run_after_torch

from longwave.core import extras

WITHOUT = f"""
import sys

sys.modules.update(dict.fromkeys({sum(extras.EXTRAS.values(), ())!r}))  # as if not installed
"""
LAYERS = """
import torch, longwave

model = longwave.SequenceModel(d_model=4, n_layers=1, input_size=3, output_size=2)
y, _ = model(torch.randn(2, 9, 3))
model.save_pretrained("model")
again = longwave.load_model("model")
assert torch.equal(again(torch.ones(1, 5, 3))[0], model(torch.ones(1, 5, 3))[0])
longwave.stream(model.eval(), hop=3).push(torch.randn(1, 7, 3))
longwave.param_groups(model, lr=0.01)
longwave.S4(4, return_state=False)(torch.randn(1, 5, 4)).sum().backward()
"""
COMMAND = """
from longwave.cli.main import main

main({!r})
"""


def test_the_extras_are_those_of_pyproject():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    called = {"pillow": "PIL", "scikit-learn": "sklearn"}
    for extra, modules in extras.EXTRAS.items():
        packages = [requirement.partition(">")[0] for requirement in declared[extra]]
        packages = [called.get(name, name) for name in packages if not name.startswith("longwave[")]
        assert sorted(packages) == sorted(modules)


COMMANDS = (["list"], ["show", "smnist-small"], ["data", "list"], ["train", "--help"])
MISSING = {  # code that cannot do without an extra -> the module that it misses first, the extra, the exit code
    WITHOUT + COMMAND.format(["train", "smnist-small"]): ("accelerate", "train", 2),
    WITHOUT + "import longwave\nlongwave.train_classifier": ("accelerate", "train", 1),
    WITHOUT + "import longwave\nlongwave.load_model('user/name')": ("huggingface_hub", "train", 1),
    "import sys\nsys.modules['sklearn'] = None\nimport longwave\nlongwave.S4Classifier": ("sklearn", "sklearn", 1),
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """What became of each code."""
    codes = [WITHOUT + LAYERS, *(WITHOUT + COMMAND.format(arguments) for arguments in COMMANDS), *MISSING]
    return {found.args: found for found in run_after_torch(*codes, cwd=tmp_path_factory.mktemp("extras"))}


def test_layers_and_models_need_no_extra(ran):
    found = ran[WITHOUT + LAYERS]
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("arguments", COMMANDS)
def test_commands_that_need_no_extra_answer(arguments, ran):
    found = ran[WITHOUT + COMMAND.format(arguments)]
    assert found.returncode == 0, found.stderr
    assert found.stdout


@pytest.mark.parametrize("code", MISSING, ids=["command", "function", "hub", "estimator"])
def test_an_error_names_the_extra(code, ran):
    found, (module, extra, exit_code) = ran[code], MISSING[code]
    assert found.returncode == exit_code
    last = found.stderr.strip().splitlines()[-1]
    assert f"{module} is not installed; install what this needs with pip install 'longwave[{extra}]'" in last


def test_another_missing_module_is_not_renamed():
    with pytest.raises(ModuleNotFoundError, match="no_such_module") as caught, extras.named():
        import no_such_module  # noqa: F401
    assert not isinstance(caught.value, extras.MissingExtra)
