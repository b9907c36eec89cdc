"""Many devices and many hosts: episodes are split over all of them, everything else is the same on each."""

import os
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, PyTree

EPISODES = "episodes"
HEARTBEAT_SECONDS = 20
"""A host that is silent for so long is given up, and with it the run."""
CLUSTERS = ("SLURM_JOB_ID", "OMPI_COMM_WORLD_SIZE", "JOB_COMPLETION_INDEX", "JAX_COORDINATOR_ADDRESS")


def join_cluster() -> None:
    """Join the other processes of the run, if the environment says that there are some.

    SLURM, Open MPI and Kubernetes are found by JAX itself. Elsewhere set JAX_COORDINATOR_ADDRESS (host:port of the
    first process), JAX_NUM_PROCESSES and JAX_PROCESS_ID.
    """
    given = {
        "coordinator_address": os.environ.get("JAX_COORDINATOR_ADDRESS"),
        "num_processes": _number("JAX_NUM_PROCESSES"),
        "process_id": _number("JAX_PROCESS_ID"),
    }
    alone = os.environ.get("SLURM_NTASKS", "2") == "1" or os.environ.get("OMPI_COMM_WORLD_SIZE", "2") == "1"
    if alone or not any(name in os.environ for name in CLUSTERS):
        return
    jax.distributed.initialize(**given, heartbeat_timeout_seconds=HEARTBEAT_SECONDS)


def _number(name: str) -> int | None:
    text = os.environ.get(name)
    if text is None:
        return None
    if not text.isdecimal():
        raise ValueError(f"{name}: got {text!r}; expected a number.")
    return int(text)


def all_devices() -> Mesh | None:
    """A mesh of all devices of all hosts; None where there is only one."""
    return None if jax.device_count() == 1 else Mesh(np.array(jax.devices()), (EPISODES,))


def check_divides(mesh: Mesh | None, episodes: int) -> None:
    if mesh is not None and episodes % mesh.size:
        raise ValueError(
            f"got {episodes} episodes an update on {mesh.size} devices; expected a multiple. Use --times to have more "
            "episodes, or CUDA_VISIBLE_DEVICES to use fewer devices."
        )


def everywhere(tree: PyTree, mesh: Mesh | None) -> PyTree:
    """The arrays of a tree, a copy on every device of the mesh."""
    if mesh is None:
        return tree
    arrays, static = eqx.partition(tree, eqx.is_array)

    def copied(array: Array) -> Array:
        if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            return jax.random.wrap_key_data(copied(jax.random.key_data(array)), impl=jax.random.key_impl(array))
        host = np.asarray(array)
        return jax.make_array_from_callback(host.shape, NamedSharding(mesh, P()), lambda index: host[index])

    return eqx.combine(jax.tree.map(copied, arrays), static)


def here(tree: PyTree) -> PyTree:
    """The arrays of a tree that is the same everywhere, on this process alone."""
    arrays, static = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.tree.map(np.asarray, arrays), static)


def split_over(mesh: Mesh | None, function: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """`function(parameters, sample, keys)` with the keys, and its first three results, split over the mesh.

    Its last result has to be the same on every device.
    """
    if mesh is None:
        return function

    def split(parameters: PyTree, sample: PyTree, keys: Any) -> tuple[Any, ...]:
        arrays, static = eqx.partition(sample, eqx.is_array)

        def on_one_device(parameters: PyTree, arrays: PyTree, keys: Any) -> tuple[Any, ...]:
            return function(parameters, eqx.combine(arrays, static), keys)

        apart = P(EPISODES)
        specifications = {"in_specs": (P(), P(), apart), "out_specs": (apart, apart, apart, P())}
        # The loops carry values that begin the same everywhere and end apart, which the check does not allow.
        return jax.shard_map(on_one_device, mesh=mesh, **specifications, check_vma=False)(parameters, arrays, keys)

    return split


def is_writer() -> bool:
    """Whether this process is the one that writes files and talks."""
    return jax.process_index() == 0


def agreed(stop: bool) -> bool:
    """What the first process has decided; all have to do the same."""
    if jax.process_count() == 1:
        return stop
    return bool(multihost_utils.broadcast_one_to_all(np.array(stop)))
