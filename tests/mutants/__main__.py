"""`python -m tests.mutants`: see run.py."""

import typer

from tests.mutants.run import main

typer.run(main)
