"""Meta-learning: fit a model's initial weights and rates to the episodes it will meet."""
