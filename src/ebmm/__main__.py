"""`python -m ebmm` is `ebmm`."""

from .cli import main

main()
