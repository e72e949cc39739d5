"""Registries: filled by modules and plug-ins when they are first read."""

import importlib
import sys
import threading

import pytest

from longwave.core import registry
from longwave.core.registry import Registry, load_plugins, nearest


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A package `shelf` in a folder on sys.path, with a registry in its own module; forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "__init__.py").touch()
    (tmp_path / "shelf_items.py").write_text(
        "from longwave.core.registry import Registry\nITEMS = Registry('book', 'shelf')\n"
    )
    load_plugins.cache_clear()
    yield tmp_path
    load_plugins.cache_clear()
    for name in [name for name in sys.modules if name.split(".")[0] in ("shelf", "shelf_items", "shelf_plugin")]:
        del sys.modules[name]


def write_module(folder, name, item):
    (folder / "shelf" / f"{name}.py").write_text(f"from shelf_items import ITEMS\nITEMS.register({item!r})({name!r})\n")


def write_plugin(folder, source):
    (folder / "shelf_plugin.py").write_text(source)
    info = folder / "shelf_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[longwave.plugins]\nmore-books = shelf_plugin\n")


def test_register_returns_what_it_registers_and_keeps_the_order():
    items = Registry("book")
    first = items.register("b")(object())
    assert items.register("a")(first) is first
    assert list(items) == ["b", "a"]
    assert len(items) == 2
    assert items["b"] is items.find("a") is first
    items.unregister("b")
    assert "b" not in items


def test_a_class_is_registered_by_a_decorator():
    items = Registry("book")

    @items.register("novel")
    class Novel:
        pass

    assert items["novel"] is Novel


def test_a_name_that_is_taken_is_refused():
    items = Registry("book")
    items.register("a")(1)
    with pytest.raises(ValueError, match="book: 'a' is registered already; choose another name"):
        items.register("a")(2)
    assert items["a"] == 1


def test_an_unknown_name_is_refused_with_the_nearest_one():
    items = Registry("book")
    for name in ("Atlas", "Novel"):
        items.register(name)(name)
    with pytest.raises(ValueError, match=r"unknown book 'atlsa'; expected one of Atlas, Novel; did you mean 'Atlas'\?"):
        items.find("atlsa")
    with pytest.raises(KeyError):
        items["atlsa"]
    assert items.get("atlsa") is None


def test_many_names_are_counted_and_a_name_like_none_of_them_has_no_hint():
    assert nearest("k7", [f"k{k}" for k in range(30)]) == "expected one of 30 names; did you mean 'k7'?"
    assert nearest("xyz", ["a", "b"]) == "expected one of a, b"


@pytest.mark.parametrize(
    "read", [lambda items: items["a"], lambda items: items.find("a"), list, len, lambda items: "a" in items]
)
def test_modules_of_the_package_are_imported_when_the_registry_is_first_read(shelf, read):
    write_module(shelf, "atlas", "a")
    items = importlib.import_module("shelf_items").ITEMS
    assert "shelf.atlas" not in sys.modules
    read(items)
    assert "shelf.atlas" in sys.modules
    assert dict(items) == {"a": "atlas"}


def test_a_module_with_an_underscore_is_not_imported(shelf):
    write_module(shelf, "atlas", "a")
    write_module(shelf, "_draft", "d")
    items = importlib.import_module("shelf_items").ITEMS
    assert list(items) == ["a"]
    assert "shelf._draft" not in sys.modules


def test_a_module_that_reads_the_registry_while_it_is_filled_does_not_start_it_again(shelf):
    (shelf / "shelf" / "atlas.py").write_text(
        "from shelf_items import ITEMS\nITEMS.register('a')(1)\nITEMS.register('b')(ITEMS['a'] + 1)\n"
    )
    assert dict(importlib.import_module("shelf_items").ITEMS) == {"a": 1, "b": 2}


def test_a_second_thread_never_sees_half_of_the_names(shelf):
    write_module(shelf, "a", "first")
    lines = ["import time, shelf_items as items", "items.BEGUN.set()", "time.sleep(0.2)"]
    (shelf / "shelf" / "b.py").write_text("\n".join([*lines, "items.ITEMS.register('second')('b')"]))
    items = importlib.import_module("shelf_items")
    items.BEGUN = threading.Event()
    first = threading.Thread(target=lambda: list(items.ITEMS))
    first.start()
    assert items.BEGUN.wait(60)
    assert list(items.ITEMS) == ["first", "second"]
    first.join()


def test_a_module_that_fails_fails_every_time_and_not_once(shelf):
    (shelf / "shelf" / "atlas.py").write_text("raise RuntimeError('no paper')\n")
    items = importlib.import_module("shelf_items").ITEMS
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no paper"):
            list(items)


def test_an_installed_plug_in_is_loaded_once(shelf):
    write_module(shelf, "atlas", "a")
    write_plugin(shelf, "from shelf_items import ITEMS\nITEMS.register('p')('from a plug-in')\n")
    items = importlib.import_module("shelf_items").ITEMS
    assert dict(items) == {"a": "atlas", "p": "from a plug-in"}
    assert list(Registry("other")) == []  # which asks for plug-ins again


def test_a_plug_in_that_cannot_be_loaded_is_named(shelf):
    write_plugin(shelf, "import no_such_module_anywhere\n")
    with pytest.raises(ImportError, match=r"plug-in 'more-books': shelf_plugin cannot be loaded \(ModuleNotFoundError"):
        list(Registry("book"))


def test_plug_ins_are_found_under_the_documented_group():
    assert "longwave.plugins" in registry.__doc__
