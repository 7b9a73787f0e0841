"""What a pipeline has done: its runs, checkpoints, failures and restarts, kept across restarts of the driver.

It decides nothing: head does (`twophase.head`). `model` has the nouns, `store` reads the file that keeps them,
`summary` makes figures of them; `entries` is what a running pipeline adds, `writer` adds it, `database` is the file.
"""
