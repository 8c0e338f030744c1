"""Where Box2D is not installed the lander flies on our own physics, and says so once."""

import os
import subprocess
import sys

from cisr.tasks import get_task
from cisr.training import TrainingSetup
from cisr.training.classroom import _executor
from cisr.training.executors import InThisProcess, Processes
from cisr.training.worker import tell_xla

WITHOUT = """
import sys
sys.modules["Box2D"] = None  # as if it were not there
from cisr import Fixed, Store
from cisr.auditing.report import keep_quick_audit
from cisr.core.errors import NotInstalled
from cisr.tasks import get_task
from cisr.training.setup import choose_backend, make_setup
from cisr.store.provenance import identity

task = get_task("lunar-lander", "quick")
get_task("lunar-lander", "quick", "one-layer")
assert choose_backend(task, "auto") == "compiled"
assert "jax_env" in identity(make_setup(task))[0]["code"]
audit = keep_quick_audit(task, Store(None), n_workers=0)
assert {verdict["status"] for verdict in audit["interventions"]} == {"not audited"}
assert audit["promises_checked"] is False
try:
    task.make_env()
except NotInstalled as error:
    print(error)
"""


def test_without_box2d_the_lander_is_compiled_and_that_is_said_once():
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    assert "needs Box2D, which is not installed: pip install 'cisr[lander]'" in ran.stdout
    assert ran.stderr.count("runs on cisr's own physics") == 1 and len(ran.stderr.splitlines()) == 1


def test_what_xla_is_told_of_a_task_is_told_to_a_process_of_its_own(monkeypatch):
    task = get_task("lunar-lander")
    flags = task.training.xla_flags
    assert flags
    for asked, kind in ((flags, Processes), ((), InThisProcess)):
        setup = TrainingSetup(task=task.with_training(xla_flags=asked), backend="compiled")
        assert isinstance(_executor(setup, 0, None, 1.0), kind)
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    tell_xla(flags)
    assert os.environ["XLA_FLAGS"].split() == ["--xla_cpu_multi_thread_eigen=false", *flags]
