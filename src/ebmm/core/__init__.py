"""The paper, in its own order: energy, rates, writing, reading, the model that holds them, the objective."""
