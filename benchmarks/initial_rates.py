"""What the first values of the rates are worth: the same small memory, meta-learned from different ones.

    python benchmarks/initial_rates.py --out results/initial_rates.json        # 12 runs of about 45 s on two cores

Eight strings of 32 bits, half of whose bits are drawn anew; an MLP or a small gated RNN; the paper's
rates, fitted write rates with fixed read rates, and everything fitted. Wrong bits of 32 are means over
test batches: of the query, then after each read step.
"""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from matplotlib.figure import Figure
from rich.progress import track

from ebmm import PAPER, ReadRates, meta_learning, new_model, string_episode
from ebmm.energies import GatedRNN
from ebmm.provenance import provenance

sample = partial(string_episode, patterns=8, bits=32)


def mlp(key: jax.Array) -> tuple[Any, Any]:
    network = eqx.nn.MLP(32, "scalar", width_size=128, depth=2, activation=jnp.tanh, key=key)
    return network, lambda e: e.layers[0]


def rnn(key: jax.Array) -> tuple[Any, Any]:
    return GatedRNN(bits=32, memory_width=16, hidden=64, key=key), lambda e: e.memory


def start(energy: Any, where: Any, first_batch: jax.Array, rates: str) -> Any:
    create = partial(new_model, energy, first_batch, where=where, domain=(-1.0, 1.0))
    if rates == "paper":
        return create(initial=PAPER)
    if rates == "write fitted":
        return replace(create(), read_rates=ReadRates.starting_at(rate=0.3, momentum=0.1, decay=0.8, steps=5))
    return create()


def run(network: str, rates: str, *, seed: int, updates: int, batches: int) -> dict[str, Any]:
    network_key, batch_key, learning_key, test_key = jax.random.split(jax.random.key(seed), 4)
    energy, where = {"mlp": mlp, "rnn": rnn}[network](network_key)
    model = start(energy, where, sample(batch_key).patterns, rates)
    losses = []
    learning = meta_learning(model, sample, updates=updates, key=learning_key)
    for model, loss in track(learning, f"{network}, {rates}, seed {seed}", total=updates, transient=True):  # noqa: B007
        losses.append(float(loss))

    @eqx.filter_jit
    def wrong_bits(model: Any, keys: jax.Array) -> jax.Array:
        def one(key: jax.Array) -> jax.Array:
            patterns, queries, known = sample(key)
            out = model.read(model.write(patterns), queries, known=known)
            iterates = jnp.concatenate([queries[None], out.trajectory])
            return jnp.mean(jnp.sum(jnp.sign(iterates) != patterns, axis=-1), axis=-1)

        return jnp.mean(jax.vmap(one)(keys), axis=0)

    return {
        "network": network,
        "rates": rates,
        "seed": seed,
        "updates": updates,
        "batches": batches,
        "wrong_bits": [round(float(w), 4) for w in wrong_bits(model, jax.random.split(test_key, batches))],
        "loss_by_tenth": [round(float(part.mean()), 2) for part in np.array_split(losses, 10) if part.size],
    }


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """The loss while learning, one panel a network, one line a run."""
    networks = list(dict.fromkeys(row["network"] for row in rows))
    colours = {"paper": "#888888", "write fitted": "#0072B2", "fitted": "#D55E00"}  # told apart by everyone
    figure = Figure(figsize=(8, 3), layout="constrained")
    axes = figure.subplots(1, len(networks), sharey=True, squeeze=False)[0]
    for axis, network in zip(axes, networks, strict=True):
        for row in (row for row in rows if row["network"] == network):
            losses = row["loss_by_tenth"]
            at = (np.arange(len(losses)) + 0.5) * row["updates"] / len(losses)
            axis.plot(at, losses, color=colours[row["rates"]], label=row["rates"])
        axis.set(title=network, xlabel="updates", ylim=(0, None))
    axes[0].set_ylabel("loss (mean of a tenth of the run)")
    handles = dict(zip(*reversed(axes[0].get_legend_handles_labels()), strict=True))
    axes[-1].legend(handles.values(), handles.keys(), title="first rates", frameon=False)
    figure.savefig(path, dpi=150)


def main(
    networks: tuple[str, ...] = ("mlp", "rnn"),
    rates: tuple[str, ...] = ("paper", "write fitted", "fitted"),
    seeds: tuple[int, ...] = (0, 1),
    updates: int = 2000,
    batches: int = 1000,
    out: Path | None = None,
) -> None:
    rows = []
    for network in networks:
        for chosen in rates:
            for seed in seeds:
                rows.append(run(network, chosen, seed=seed, updates=updates, batches=batches))
                print(rows[-1], flush=True)
                if out:
                    out.write_text(json.dumps({**provenance(seed=seeds[0]), "rows": rows}, indent=1) + "\n")
                    draw(rows, out.with_suffix(".png"))


if __name__ == "__main__":
    tyro.cli(main)
