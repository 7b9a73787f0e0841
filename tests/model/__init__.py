"""The protocol as exhaustive models, apart from the code: a mistake of the simulation would not be made here as well.

Read in this order: `state` (what there is), `steps` with `tasks` and `swaps` (what each process does next), `search`
(every interleaving, and what must hold), `variants` (bounds, and the protocol with one rule broken at a time). The
others are smaller models of their own: `lives` for resets, `take_over` for a log while a sink is taken over,
`set_back` and `head_set_back` for a sink and a head that go back in time, `away` for starts while a sink is away; they
share one search, `reach`. None of them
shares a line with the product.
"""
