"""What may import what. Read from the sources, so that an import inside a function counts as well."""

import ast
import functools
import importlib
import sys
from pathlib import Path

import pytest
from dense import ROOT, run_after_torch, run_python

import longwave

PACKAGE = ROOT / "longwave"
# A part of longwave -> the parts that it may import, besides itself. What a part may import stands above it.
ALLOWED: dict[str, set[str]] = {
    "core": set(),
    "ssm": set(),
    "ops": {"core", "ssm"},
    "layers": {"core", "ops", "ssm"},
    "io": {"core"},
    "pictures": {"core", "layers", "ssm"},
    "models": {"core", "layers", "ops"},
    "tasks": {"core", "io", "models", "pictures"},
    "experiments": {"core", "layers", "models", "tasks"},
    "train": {"core", "experiments", "layers", "models", "ops", "tasks"},
    "report": {"core", "layers", "models", "pictures", "tasks", "train"},
    "publish": {"core", "models", "report", "train"},
    "runs": {"core", "experiments", "publish", "report", "tasks", "train"},
    "exporting": {"core", "layers", "models", "ops", "runs", "ssm", "tasks", "train"},
    "fitting": {"experiments", "runs", "tasks", "train"},
    "backtests": {"core", "experiments", "runs", "tasks", "train"},
    "estimators": {"backtests", "core", "experiments", "fitting", "report", "runs", "tasks", "train"},
    "aeon": {"estimators"},
    "sktime": {"estimators"},
    "importing": {"core", "experiments", "layers", "models", "tasks", "train"},
    "sweeps": {"core", "experiments", "io", "layers", "models", "pictures", "runs", "tasks", "train"},
}
ALLOWED["bench"] = set(ALLOWED)
ALLOWED["cli"] = set(ALLOWED)
# What ssm needs of the world: the maths stay readable on their own.
OUTSIDE_OF_SSM = {"torch", "jaxtyping"}
OUTSIDE_OF_IO = {"PIL", "narwhals", "rich", "numpy", "requests", "scipy", "soundfile", "urllib3"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(source: str, module: str, is_package: bool) -> set[str]:
    """The absolute names of all modules that a source imports; `from x import y` gives x and x.y."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")
            base = base[: len(base) - node.level + is_package] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            found |= {origin, *(f"{origin}.{alias.name}" for alias in node.names)}
    return found


@functools.cache
def imports_of(path: Path) -> set[str]:
    return imports(path.read_text(), module_name(path), path.name == "__init__.py")


def parts(names: set[str]) -> set[str]:
    """The parts of longwave (ssm, ops, layers ...) among imported names."""
    existing = {path.stem if path.is_file() else path.name for path in PACKAGE.iterdir()}
    found = {name.split(".")[1] for name in names if name.startswith("longwave.")}
    return found & existing


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_the_reader_of_imports_sees_every_form():
    source = "import a.b\nfrom . import c\nfrom ..d import e\ndef f():\n    from longwave.cli import g\n"
    found = imports(source, "longwave.ssm.kernel", is_package=False)
    assert {"a.b", "longwave.ssm.c", "longwave.d", "longwave.d.e", "longwave.cli", "longwave.cli.g"} <= found
    assert "longwave.ssm.c" in imports("from . import c", "longwave.ssm", is_package=True)
    assert parts(imports("from longwave import ops", "longwave.ssm.kernel", is_package=False)) == {"ops"}
    assert parts(imports_of(PACKAGE / "layers" / "s4.py")) == {"core", "layers", "ops", "ssm"}


def test_every_part_has_its_place_and_imports_only_those_above_it():
    """So that there is no cycle."""
    assert {part_of(path) for path in MODULES} == {*ALLOWED, "__init__", "__main__"}
    above: set[str] = set()
    for part, allowed in ALLOWED.items():
        assert allowed <= above, part
        above.add(part)


def test_imports_go_one_way():
    wrong = {
        module_name(path): more
        for path in MODULES
        if (part := part_of(path)) in ALLOWED and (more := parts(imports_of(path)) - ALLOWED[part] - {part})
    }
    assert wrong == {}


def test_nothing_imports_the_command_line():
    others = [path for path in MODULES if part_of(path) not in ("cli", "__main__")]
    assert [module_name(path) for path in others if "cli" in parts(imports_of(path))] == []


def outside(*names: str) -> dict[str, set[str]]:
    """What the modules of some parts import besides longwave and the standard library."""
    found = {module_name(p): {name.split(".")[0] for name in imports_of(p)} for p in MODULES if part_of(p) in names}
    return {module: roots - set(sys.stdlib_module_names) - {"longwave"} for module, roots in found.items()}


def test_the_maths_need_torch_and_jaxtyping_only():
    assert {module: more for module, roots in outside("ssm").items() if (more := roots - OUTSIDE_OF_SSM)} == {}


def test_the_ops_need_torch_only_and_triton_in_its_kernels():
    more = {module: more for module, roots in outside("ops").items() if (more := roots - {"torch"})}
    kernels = ("spectrum_kernels", "feature_kernels", "step_kernel")
    assert more == {f"longwave.ops.gpu.{name}": {"triton"} for name in kernels}
    importing = {module_name(path) for path in MODULES if any(name.endswith(kernels) for name in imports_of(path))}
    assert importing == set()  # they are imported when a kernel first runs


def test_files_are_read_without_torch():
    assert {module: more for module, roots in outside("core", "io").items() if (more := roots - OUTSIDE_OF_IO)} == {}


def test_neither_files_nor_the_catalogue_of_data_sets_load_torch_or_the_network():
    modules = [module_name(path) for path in MODULES if part_of(path) in ("core", "io") or path.name == "datasets.py"]
    code = f"import sys, importlib; [importlib.import_module(name) for name in {modules}]; "
    code += "from longwave.io.download import catalogue, making; print(bool(catalogue.DATASETS), bool(making.MAKERS))"
    result = run_python(code + "; print(sorted({'torch', 'requests', 'matplotlib'} & set(sys.modules)))")
    assert result.stdout.splitlines() == ["True True", "[]"], result.stderr


def test_the_package_does_not_wait_for_torch():
    result = run_python("import sys, longwave; print('torch' in sys.modules, 'S4' in dir(longwave))")
    assert result.stdout == "False True\n", result.stderr


CHAIN = ["ssm", "ops", "layers"]  # each may import those before it, so that one process shows what each brings


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """What two processes print: one imports the parts of the chain, the other uses every public name."""
    chain = [f"import longwave.{part}; print([m for m in sys.modules if 'longwave.' in m])" for part in CHAIN]
    names = ["import longwave; print([n for n in longwave.__all__ if getattr(longwave, n, None) is None])"]
    names += ["print('torch._dynamo' in sys.modules)"]
    codes = ["\n".join(["import sys", *lines]) for lines in (chain, names)]
    results = run_after_torch(*codes, cwd=tmp_path_factory.mktemp("imports"))
    assert [found.returncode for found in results] == [0, 0], [found.stderr for found in results]
    return [found.stdout.splitlines() for found in results]


def test_public_names_are_loaded_on_first_use(loaded):
    """Without torch's compiler, which takes as long to import as torch itself."""
    assert loaded[1] == ["[]", "False"]
    assert {"S4", "DPLR", "param_groups", "__version__"} <= set(longwave.__all__)
    assert longwave.S4 is importlib.import_module("longwave.layers.s4").S4


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'longwave' has no attribute 'S5'"):
        longwave.S5  # noqa: B018


def test_a_part_can_be_imported_alone_and_brings_no_part_that_it_may_not_import(loaded):
    for part, modules in zip(CHAIN, loaded[0], strict=True):
        assert parts(set(ast.literal_eval(modules))) <= ALLOWED[part] | {part}
