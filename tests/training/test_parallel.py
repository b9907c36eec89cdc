"""Many devices and many processes give what one gives, and none of them hangs when another dies."""

import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import on_devices
import pytest
from conftest import QUICK
from jax.sharding import Mesh

from ebmm.training.parallel import EPISODES, all_devices, check_divides, join_cluster

SCRIPT = Path(on_devices.__file__)


def started(updates=6, devices=1, **environment):
    flags = " ".join((*QUICK, f"--xla_force_host_platform_device_count={devices}"))
    found = os.pathsep.join(filter(None, (str(SCRIPT.parents[1]), os.environ.get("PYTHONPATH"))))
    chosen = {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": found}
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), str(updates)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | chosen | environment,
    )


def results(process):
    """What a process printed of itself; the libraries below it print too."""
    printed, complaints = process.communicate(timeout=240)
    assert process.returncode == 0, complaints
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def result(process):
    return results(process)[-1]


def two_processes(updates):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}", "JAX_NUM_PROCESSES": "2"}
    return [started(updates, JAX_PROCESS_ID=str(number), **shared) for number in range(2)]


@pytest.fixture(scope="module")
def bereft():
    """A process whose partner was killed while both were training. It notices after some seconds: other tests are run
    meanwhile, and a thread waits for its end."""
    first, second = two_processes(updates=100_000)
    try:
        while not first.stdout.readline().startswith("{"):  # until both are training
            assert first.poll() is None
        second.kill()
        with ThreadPoolExecutor(1) as thread:
            yield first, thread.submit(first.communicate, timeout=60)
    finally:
        for process in (first, second):
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def alone(bereft):
    """Does not need the other, which is asked for so that it is waited for meanwhile."""
    return on_devices.main(6)


def test_eight_devices_give_the_losses_of_one(alone):
    found = result(started(devices=8))
    assert found["devices"] == 8
    np.testing.assert_allclose(found["losses"], alone, rtol=1e-5)


def test_two_processes_give_the_losses_of_one(alone):
    first, second = two_processes(updates=6)
    found = result(first)
    assert results(second) == []  # one process writes
    assert found["devices"] == 2
    np.testing.assert_allclose(found["losses"], alone, rtol=1e-5)


def test_when_one_process_is_killed_the_other_ends_with_an_error_within_a_minute(bereft):
    process, end = bereft
    end.result()
    assert process.returncode != 0


def test_episodes_that_cannot_be_split_evenly_are_refused():
    mesh = Mesh(np.array(jax.devices() * 3), (EPISODES,))
    check_divides(mesh, 6)
    check_divides(None, 5)
    with pytest.raises(ValueError, match="got 5 episodes an update on 3 devices; expected a multiple"):
        check_divides(mesh, 5)


def test_one_device_needs_no_mesh():
    assert all_devices() is None


def test_a_cluster_is_joined_only_where_the_environment_names_one(monkeypatch):
    joined = []
    monkeypatch.setattr(jax.distributed, "initialize", lambda **settings: joined.append(settings))
    join_cluster()
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_NTASKS", "1")
    join_cluster()
    assert joined == []
    monkeypatch.setenv("SLURM_NTASKS", "4")
    join_cluster()
    assert joined[0]["heartbeat_timeout_seconds"] <= 30
    assert joined[0]["coordinator_address"] is None  # JAX finds it
    monkeypatch.setenv("JAX_NUM_PROCESSES", "many")
    with pytest.raises(ValueError, match="JAX_NUM_PROCESSES: got 'many'; expected a number"):
        join_cluster()
