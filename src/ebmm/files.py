"""Safe files: safetensors and JSON only, written whole or not at all, and checked when they are read."""

import hashlib
import json
import math
import os
import secrets
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

VERSION = 1
Tensors = dict[str, np.ndarray]


def named_arrays(tree: PyTree) -> Tensors:
    """The arrays of a pytree by their dotted path, such as `energy.block3.wide.memory.kernel`."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(tree, eqx.is_array))
    arrays = {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in leaves}
    if len(arrays) != len(leaves):
        raise ValueError("Two arrays have the same dotted name; rename a key that has a dot in it.")
    return arrays


def fill(tree: PyTree, tensors: Tensors, path: Path) -> PyTree:
    """The same pytree with every array replaced by the tensor of its name; halves become single precision again."""

    def is_place(leaf: Any) -> bool:
        return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)

    missing: list[str] = []
    used: set[str] = set()

    def replace(key_path: Any, leaf: Any) -> Any:
        if not is_place(leaf):
            return leaf
        name = jax.tree_util.keystr(key_path, simple=True, separator=".")
        tensor = tensors.get(name)
        if tensor is None:
            missing.append(name)
            return leaf
        used.add(name)
        if tensor.shape != leaf.shape:
            raise ValueError(f"{path}: {name} has shape {tensor.shape}; this model expects {leaf.shape}.")
        if tensor.dtype == np.float64 and not jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
            raise ValueError(f"{path}: {name} is float64; call jax.config.update('jax_enable_x64', True) first.")
        is_halved = tensor.dtype == np.float16 and leaf.dtype != np.float16
        return jnp.asarray(tensor.astype(np.float32) if is_halved else tensor)

    filled = jax.tree_util.tree_map_with_path(replace, tree)
    unexpected = sorted(tensors.keys() - used)
    if missing or unexpected:
        lacks, besides = missing or "nothing", unexpected or "nothing"
        raise ValueError(f"{path} does not fit this model: it lacks {lacks} and holds {besides} besides.")
    return filled


def digest(tensors: Tensors, description: Any = None) -> str:
    """A SHA-256 of names, shapes, types and values, and of a JSON-able description."""
    sha = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        sha.update(f"{name} {array.dtype} {array.shape} ".encode())
        sha.update(array.reshape(-1).view(np.uint8).data)
    return sha.hexdigest()


def save_tensors(path: Path, tensors: Tensors, *, format: str, **about: str) -> None:
    """Write tensors with what they are, and a hash that shows corruption."""
    write_whole({path: tensors_as_bytes(tensors, format=format, **about)})


def tensors_as_bytes(tensors: Tensors, *, format: str, **about: str) -> bytes:
    metadata = {"format": format, "version": str(VERSION), **about}
    return save(tensors, {**metadata, "content": digest(tensors, metadata)})


def load_tensors(path: Path, *, format: str) -> tuple[Tensors, dict[str, str]]:
    """The tensors and what the file says of itself, or a ValueError that says what is wrong with it."""
    must_exist(path, f"a file of format {format}")
    try:
        with safe_open(path, framework="numpy") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError) as error:
        raise ValueError(f"{path} is truncated or no safetensors file ({error}); expected format {format}.") from None
    if about.get("format") != format:
        raise ValueError(f"{path} has format {about.get('format', 'unknown')}; expected {format}.")
    check_version(path, about.get("version"))
    content = about.pop("content", None)
    if content != digest(tensors, about):
        raise ValueError(f"{path} is corrupted: its content is not what was saved. Restore it from a copy.")
    return tensors, about


def safetensors_format(path: Path) -> str | None:
    """What a safetensors file says that it is."""
    must_exist(path, "a safetensors file")
    try:
        with safe_open(path, framework="numpy") as file:
            return (file.metadata() or {}).get("format")
    except (SafetensorError, OSError, TypeError) as error:
        raise ValueError(f"{path} is truncated or no safetensors file ({error}).") from None


def check_version(path: Path, version: Any) -> None:
    if not str(version).isdecimal() or int(version) > VERSION:
        raise ValueError(f"{path} has version {version}; this ebmm reads up to {VERSION}. Upgrade ebmm to read it.")


def as_json(value: Any) -> bytes:
    """Plain JSON with what is not finite as null, which every reader understands."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [plain(each) for each in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return (json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def must_exist(path: Path, expected: str) -> None:
    if path.is_dir():
        raise ValueError(f"{path} is a folder; expected {expected}.")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; expected {expected}.")


def write_whole(contents: dict[Path, bytes]) -> None:
    """Write files under temporary names, flush them to the disk, then rename: each is the old one or the new one."""
    temporary: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            if path.is_dir():
                raise ValueError(f"{path} is a folder; expected the name of a file to write.")
            if not path.parent.is_dir():
                raise FileNotFoundError(
                    f"The folder {path.parent} does not exist, so {path.name} was not saved; create it first."
                )
            temporary[path] = path.with_name(f".{secrets.token_hex(4)}.tmp")
            with temporary[path].open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for path in contents:
            temporary[path].replace(path)
    finally:
        for name in temporary.values():
            name.unlink(missing_ok=True)
