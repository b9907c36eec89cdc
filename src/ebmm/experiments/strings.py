"""Random strings, in the paper's gated RNN and in the other systems, at equal memory."""

from ..initial import InitialRates
from ..training.settings import Settings, Stage, paper
from .experiment import Experiment

COUNTS = (16, 32, 48, 64, 96)
"""Of patterns, in the paper's table."""
FROM_64_UPDATES = {16: 2_000, 32: 4_000, 48: 15_000, 96: 15_000}
FROM_64 = "from the bundled binary-rnn; 3, 6, 19 and 19 minutes together on one H200, with one copy of each string"
HOPFIELD_RULES = ("hebb", "storkey", "pseudo-inverse")


def _strings(patterns: int, updates: int, *, expected: str, start: str | None = None) -> Experiment:
    return Experiment(
        name=f"binary-{patterns}",
        about=f"{patterns} strings of 128 bits in 8,256 floats",
        network="GatedRNN",
        on="strings",
        settings=Settings(
            updates=updates,
            stages=(Stage(patterns, 16, updates),),
            learning_rate=1e-3,
            copies=4,
            group=4,
            snapshot=500,
            patience=None,
        ),
        expected=expected,
        start=start,
        beside=HOPFIELD_RULES,
    )


OTHERS = {
    # ending: class, learning rate, episodes in an update, and, as a first guess at some seven minutes on one H200, the
    # updates: for what goes through the patterns one by one, with large steps, the fewer the more patterns there are.
    "memory-network": ("MemoryNetwork", 3e-3, 32, lambda patterns: 200_000),
    "mann": ("MANN", 1e-3, 16, lambda patterns: round(2_000_000 / patterns, -3)),
    "plasticity": ("Plasticity", 3e-3, 32, lambda patterns: 150_000),
    "lstm": ("LSTM", 3e-3, 16, lambda patterns: round(2_500_000 / patterns, -3)),
}


def _strings_in(ending: str, patterns: int) -> Experiment:
    """The same strings in another system, whose defaults have 8,256 floats for 128 bits."""
    system, learning_rate, episodes, updates_for = OTHERS[ending]
    updates = int(updates_for(patterns))
    return Experiment(
        name=f"binary-{patterns}-{ending}",
        about=f"{patterns} strings of 128 bits in 8,256 floats: {system}",
        network=system,
        on="strings",
        settings=Settings(
            updates=updates,
            stages=(Stage(patterns, episodes, updates),),
            learning_rate=learning_rate,
            group=episodes if ending == "lstm" else 4,  # 68 million weights: one gradient at a time
            snapshot=5000,
            patience=None,
        ),
        expected="not measured yet" if ending == "lstm" else "--within 11 was used, beside others on one H200",
    )


def _mixed(
    patterns: int, updates: int, *, write_steps: int = 5, read_steps: int = 8, start: str | None = None
) -> Experiment:
    """The same strings and memory in `MixedRNN`, which learns on a CPU."""
    return Experiment(
        name=f"binary-{patterns}-mixed",
        about=f"{patterns} strings of 128 bits in 8,256 floats, between learned matrices",
        network="MixedRNN",
        on="strings",
        write_steps=write_steps,
        read_steps=read_steps,
        settings=Settings(
            updates=updates,
            stages=(Stage(patterns, 2, updates),),
            learning_rate=3e-3 if start is None else 1e-3,
            decay=0.5 if start is None else 1.0,
            copies=2,
            snapshot=250,
            patience=None,
        ),
        expected="about an hour on one CPU core",
        start=start,
        beside=HOPFIELD_RULES,
    )


RECONSTRUCTION = Experiment(
    name="binary-64-reconstruction",
    about="64 strings of 128 bits in 8,256 floats, with the reconstruction error as energy",
    network="StringReconstruction",
    on="strings",
    write_steps=15,  # a step costs little without the gradient term
    read_steps=10,
    gradient_term=False,
    settings=Settings(
        updates=2_500,
        stages=(Stage(64, 2, 2_500),),
        learning_rate=2e-3,
        copies=2,
        warm_up=50,
        snapshot=250,
        patience=None,
        initial=InitialRates(read=1.5, momentum=0.1, decay=0.9),  # a first step of 1 is what the memory repeats
    ),
    expected="8 minutes on one CPU core; it holds fewer strings as well",
    beside=HOPFIELD_RULES,
)


STRINGS = (
    Experiment(
        name="debug",
        about="a few seconds of training on any machine",
        network="GatedRNN",
        on="strings",
        sizes={"memory_width": 8, "hidden": 16, "hops": 2},
        bits=16,
        write_steps=2,
        read_steps=2,
        settings=Settings(
            updates=400,
            stages=(Stage(2, 8, 200), Stage(4, 8, 400)),
            learning_rate=1e-2,
            warm_up=10,
            snapshot=50,
            patience=None,
            average=0.9,
        ),
        expected="half a minute on two CPU cores, most of it compiling",
        held_out=2,
    ),
    Experiment(
        name="binary-small",
        about="8 strings of 32 bits in 528 floats: a small RNN against the Hopfield rules",
        network="GatedRNN",
        on="strings",
        sizes={"memory_width": 16, "hidden": 64},
        bits=32,
        settings=Settings(
            updates=11_000, stages=(Stage(8, 4, 11_000),), learning_rate=3e-3, patience=None, snapshot=500
        ),
        expected="5 minutes on two CPU cores",
        beside=HOPFIELD_RULES,
    ),
    Experiment(
        name="binary-middle",
        about="32 strings of 64 bits in 2,080 floats: between the small one and the paper's, to try settings on",
        network="GatedRNN",
        on="strings",
        sizes={"memory_width": 32, "hidden": 128},
        bits=64,
        settings=Settings(
            updates=1500, stages=(Stage(32, 4, 1500),), learning_rate=3e-3, group=2, patience=None, snapshot=500
        ),
        expected="6 minutes on one CPU core",
        beside=HOPFIELD_RULES,
    ),
    # The model of 64 strings recalls other numbers too, so that they start from it.
    *(_strings(count, updates, expected=FROM_64, start="binary-rnn") for count, updates in FROM_64_UPDATES.items()),
    _strings(64, 23_000, expected="not measured yet; with one copy of each string some 9.5 minutes on one H200"),
    _mixed(64, 16_000),  # it holds fewer as well
    _mixed(96, 5_500, write_steps=10, read_steps=12, start="binary-mixed"),
    RECONSTRUCTION,
    *(_strings_in(ending, patterns) for ending in OTHERS for patterns in COUNTS),
    Experiment(
        name="binary-64-paper",
        about="the same model with the paper's settings, for two million updates",
        network="GatedRNN",
        on="strings",
        settings=paper(updates=2_000_000, stage=Stage(64, 1, 2_000_000)),
        expected="not measured",
    ),
)
