"""What is recalled from damage of several kinds, by what was practised.

Each batch is written once for each practice and read under all kinds.

    python benchmarks/practised_damage.py omniglot-conv-9k --on omniglot --batches 5 --out practised.json
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ebmm import Memory, Rehearsal, distortion
from ebmm.cli.evaluate import chosen
from ebmm.evaluation.metrics import METRICS
from ebmm.evaluation.yardsticks import blanked
from ebmm.files import as_json, write_whole
from ebmm.provenance import provenance
from ebmm.rehearsal import with_rehearsal

PRACTISED = ("block:16", "block:8/block:16/block:20/block:16:low/block:16:high/salt-and-pepper:0.15")
ASKED = ("block:8", "block:16", "block:20", "block:16:low", "block:16:high", "salt-and-pepper:0.15", "bits:0")


def main(
    model: Annotated[str, tyro.conf.Positional],
    on: str = "omniglot",
    split: str = "test",
    steps: int = 320,
    practised: tuple[str, ...] = PRACTISED,
    asked: tuple[str, ...] = ASKED,
    batches: int = 5,
    seed: int = 0,
    out: Path | None = None,
) -> None:
    memory = Memory.from_pretrained(model)
    protocol = chosen(on, memory, patterns=None, damage=None)
    episodes, metric = protocol.episodes(split), METRICS[protocol.metric]
    plain, domain = memory.model_for(protocol.patterns), episodes.source.domain
    assert domain is not None
    ways = {"as learned": plain}
    ways |= {under: with_rehearsal(plain, Rehearsal(under, steps, episodes.reveal)) for under in practised}
    kinds = {name: distortion(name) for name in asked}

    def wrong(recalled: Any, patterns: Any) -> Any:
        return jnp.mean(jax.vmap(lambda x, y: metric(x, y, domain))(recalled, patterns))

    @eqx.filter_jit
    def measured(way: Any, key: Any) -> dict[str, Any]:
        patterns = episodes(key).patterns
        state, found = way.write(patterns), {}
        for index, (name, kind) in enumerate(kinds.items()):
            keys = jax.random.split(jax.random.fold_in(key, index), len(patterns))
            queries, kept = jax.vmap(lambda x, k, kind=kind: kind(x, key=k, domain=domain))(patterns, keys)
            recalled = way.read(state, queries, known=kept if episodes.reveal else None).patterns
            found[name] = jnp.stack(
                [wrong(queries, patterns), wrong(blanked(queries, kept), patterns), wrong(recalled, patterns)]
            )
        return found

    rows: dict[str, dict[str, list[float]]] = {name: {} for name in ("damaged", "blanked", *ways)}
    for way, batch in track([(way, batch) for batch in range(batches) for way in ways], "Measuring"):
        found = jax.device_get(measured(ways[way], jax.random.fold_in(jax.random.key(seed), batch)))
        for kind, (damaged, blank, read) in found.items():
            rows[way].setdefault(kind, []).append(float(read))
            if way == "as learned":
                rows["damaged"].setdefault(kind, []).append(float(damaged))
                rows["blanked"].setdefault(kind, []).append(float(blank))
        if out:
            means = {name: {kind: float(np.mean(each)) for kind, each in row.items()} for name, row in rows.items()}
            about = {"model": model, "on": on, **asdict(protocol), "split": split, "steps": steps}
            done = len(rows["as learned"][asked[0]])
            report = {**about, "batches": done, "means": means, "by_batch": rows, **provenance(seed=seed)}
            write_whole({out: as_json(report)})
    table = Table("", *asked, title=f"{model}: wrong values by what was practised, and by what is asked")
    for name, row in rows.items():
        table.add_row(name, *(f"{np.mean(row[kind]):.1f}" for kind in asked))
    Console().print(table)


if __name__ == "__main__":
    tyro.cli(main)
