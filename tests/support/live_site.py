"""A server of the live page, and runs on stores that it shows."""

import contextlib
import threading
from pathlib import Path

import tiny

from cisr import Store, compare
from cisr.view.live.replays import Replays
from cisr.view.live.server import Server
from cisr.view.live.site import Site

STORE = "/store/store.sqlite/"
TINY = f"{Path(tiny.__file__)}:task"
SCRIPT = "<script>hacked=1</script><img src=x onerror=hacked=1>"


@contextlib.contextmanager
def serving(path, host="127.0.0.1", task=TINY, port=0):
    server = Server(Site(path, Replays(task)), host, port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def taught(path, curricula, n_students, task=tiny.task, **settings):
    with Store(path) as store:
        return compare(task, curricula, n_students=n_students, store=store, execution=tiny.HERE, **settings)
