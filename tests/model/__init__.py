"""The protocol as exhaustive models, apart from the code: a mistake of the simulation would not be made here as well.

Read in this order: `state` (what there is), `steps` with `tasks` and `swaps` (what each process does next), `search`
(every interleaving, and what must hold), `variants` (bounds, and the protocol with one rule broken at a time); `lives`
is a smaller model of its own, for resets, and `set_back` for a head that goes back in time.
They share no line with the product.
"""
