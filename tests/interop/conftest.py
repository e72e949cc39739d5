"""These tests need the extra `interop`, and run in an environment of their own: make test-interop."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("aeon") else ["test_*.py"]
