"""A nemesis against a pipeline with state and several sinks, under load, on real servers.

`python -m integration_tests.chaos --help`; `make chaos` runs it.

A run is a sequence of rounds. A seed gives each round its setup and its faults (`plan`). A round (`round`)
has a topic and tables of its own (`arena`): a `load` that goes on, a pipeline that `supervised` starts again when it
has ended, the `nemesis`, and in the end an `oracle` that counts. Its line goes to a log, by which a run that was cut
off is taken up again, and which can be summed up (`log`).
"""
