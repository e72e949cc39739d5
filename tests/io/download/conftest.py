import pytest


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def _no_data_folder_of_the_user(monkeypatch, tmp_path):
    monkeypatch.delenv("LONGWAVE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
