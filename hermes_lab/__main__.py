"""`python -m hermes_lab` is `hermes-lab`."""

from hermes_lab.runners.cli import main

main()
