"""`python -m runners` is `hermes-lab`."""

from runners.cli import main

main()
