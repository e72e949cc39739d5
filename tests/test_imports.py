"""What may import what. Read from the sources, so that an import inside a function counts as well."""

import ast
import importlib
import sys
from pathlib import Path

import pytest
from dense import ROOT, run_python

import longwave

PACKAGE = ROOT / "longwave"
# A part of longwave -> the parts that it may import, besides itself.
ALLOWED = {
    "kernels": set(),
    "ssm": {"kernels"},
    "layers": {"ssm", "kernels"},
    "models": {"layers", "ssm"},
    "tasks": set(),
}
# What ssm needs of the world: the maths stay readable on their own.
OUTSIDE_OF_SSM = {"torch", "jaxtyping"}
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


def imports_of(path: Path) -> set[str]:
    return imports(path.read_text(), module_name(path), path.name == "__init__.py")


def parts(names: set[str]) -> set[str]:
    """The parts of longwave (kernels, ssm, layers ...) among imported names."""
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
    assert parts(imports("from longwave import kernels", "longwave.ssm.kernel", is_package=False)) == {"kernels"}
    assert parts(imports_of(PACKAGE / "ssm" / "kernel.py")) == {"kernels", "ssm"}


@pytest.mark.parametrize("path", [path for path in MODULES if part_of(path) in ALLOWED], ids=module_name)
def test_imports_go_one_way(path):
    part = part_of(path)
    assert parts(imports_of(path)) <= ALLOWED[part] | {part}


@pytest.mark.parametrize("path", [path for path in MODULES if part_of(path) != "cli"], ids=module_name)
def test_nothing_imports_the_command_line(path):
    assert "cli" not in parts(imports_of(path))


@pytest.mark.parametrize("path", sorted((PACKAGE / "ssm").rglob("*.py")), ids=module_name)
def test_the_maths_need_torch_and_jaxtyping_only(path):
    roots = {name.split(".")[0] for name in imports_of(path)} - set(sys.stdlib_module_names)
    assert roots <= OUTSIDE_OF_SSM | {"longwave"}


@pytest.mark.parametrize("path", sorted((PACKAGE / "kernels").rglob("*.py")), ids=module_name)
def test_the_kernels_need_torch_only(path):
    roots = {name.split(".")[0] for name in imports_of(path)} - set(sys.stdlib_module_names)
    assert roots <= {"torch", "longwave"}


def test_the_package_does_not_wait_for_torch():
    result = run_python("import sys, longwave; print('torch' in sys.modules, 'S4' in dir(longwave))")
    assert result.stdout == "False True\n", result.stderr


def test_public_names_are_loaded_on_first_use():
    code = "import longwave; print([name for name in longwave.__all__ if getattr(longwave, name, None) is None])"
    result = run_python(code)
    assert result.stdout == "[]\n", result.stderr
    assert {"S4", "DPLR", "param_groups", "__version__"} <= set(longwave.__all__)
    assert longwave.S4 is importlib.import_module("longwave.layers.s4").S4


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'longwave' has no attribute 'S5'"):
        longwave.S5  # noqa: B018


@pytest.mark.parametrize("module", ["longwave.kernels", "longwave.ssm", "longwave.layers"])
def test_a_part_can_be_imported_alone(module):
    """And brings no part with it that it may not import."""
    code = f"import sys, {module}; print(sorted(m for m in sys.modules if m.startswith('longwave.')))"
    result = run_python(code)
    loaded = parts(set(ast.literal_eval(result.stdout)))
    part = module.split(".")[1]
    assert loaded <= ALLOWED[part] | {part}
