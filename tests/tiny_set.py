"""A tiny data set: its archives, its entry in the catalogue, and a server on this machine that has it."""

import contextlib
import hashlib
import io
import tarfile
import threading
import time
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from longwave.io.download.catalogue import DATASETS, Dataset, File, Folder, Source

CONTENTS = {"tiny/a.txt": b"first " * 1000, "tiny/sub/b.txt": b"second"}


class Server(ThreadingHTTPServer):
    """Serves `files`, and fails as it is set to: by path, a status, a number of bytes to stop after, or no ranges."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.status, self.stop_after = {}, {}, {}
        self.ranges, self.drips = True, set()  # paths that come byte by byte
        self.requests = []

    def url(self, path):
        return f"http://127.0.0.1:{self.server_port}/{path}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        path = self.path.lstrip("/")
        self.server.requests.append((path, self.headers.get("Range")))
        body = self.server.files.get(path)
        status = self.server.status.get(path, 200 if body is not None else 404)
        if status != 200:
            self.send_error(status)
            return
        start = 0
        if self.server.ranges and (wanted := self.headers.get("Range")):
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        if path not in self.server.drips:
            self.wfile.write(body[start : self.server.stop_after.get(path)])
            return
        with contextlib.suppress(OSError):  # it has been given up
            for byte in body[start:]:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(0.01)

    def log_message(self, *args):
        pass


@contextmanager
def running_server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def pack_tar(contents=CONTENTS, extra=(), mode="w:gz"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, data in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for info in extra:
            archive.addfile(info)
    return buffer.getvalue()


def pack_zip(contents=CONTENTS, extra=()):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
        for info, data in extra:
            archive.writestr(info, data)
    return buffer.getvalue()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def register(source, checks):
    """Register a data set named `tiny`; the fixture `server` takes it out again."""
    return DATASETS.register("tiny")(Dataset("a tiny set", "none", source.target, (source,), checks))


CHECKS = (
    File("tiny/a.txt", 6000, f"sha256:{sha256(CONTENTS['tiny/a.txt'])}"),
    Folder("tiny/sub", "*.txt", 1),
)


def register_archive(server, body, name="tiny.tar.gz", known=True, mirrors=(), limit=1_000_000):
    server.files[name] = body
    urls = (server.url(name), *mirrors)
    checksum = sha256(body) if known else None
    source = Source(urls, "tiny", len(body), checksum, archive=name, inside="tiny", limit=limit)
    return register(source, CHECKS)


def leftovers(folder):
    """The files that a failed `get` left, apart from incomplete downloads that it can resume."""
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".part"]
