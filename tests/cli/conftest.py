"""What every test of a command starts from."""

import io

import pytest
from matplotlib.figure import Figure


@pytest.fixture(autouse=True)
def _own_folder(own_folder, _few_features):
    """Runs and data go to a folder of the test's own."""


@pytest.fixture(autouse=True)
def _pages_are_not_rendered(monkeypatch):
    """The pictures of a report are drawn and not rendered, which would take longer than the training.

    Those of the runs that the tests share are, as they are trained outside of a test; pictures in files are, too.
    """
    render = Figure.savefig

    def savefig(figure, target, **options):
        if isinstance(target, io.BytesIO):
            target.write(b"picture")
        else:
            render(figure, target, **options)

    monkeypatch.setattr(Figure, "savefig", savefig)
