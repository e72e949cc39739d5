"""A disk without room, by a limit of the system on the size of files."""

import contextlib
import resource


@contextlib.contextmanager
def room(size):
    """Files may have so many bytes; the system refuses more, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
