"""What a memory model is worth: its errors, its energies, its bits, and the yardsticks to hold them against."""
