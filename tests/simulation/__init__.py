"""The real coordinator in a simulated world: every interleaving, every crash, within bounds that are written down.

Read in this order: `world` (the stores and who runs), `sinks` (what a sink does, one atomic operation at a time),
`operations` (what an action of the protocol is made of), `processes` (the real coroutines, replayed), `jobs` (Spark's
tasks), `moves` (what may happen next), `rules` (what must always hold), `explore` (the search), `mutants`,
`traces` (what the model of `tests.model` has found, done by the code), `test_found` (what real faults have found).
"""
