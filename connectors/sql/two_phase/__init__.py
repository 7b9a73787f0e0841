"""Two-phase commit in a database, whichever it is: what the rules R2-R9 ask of a sink, written once.

Read in this order: `server` (what is asked of a connection), `tables` (the protocol's own rows), `permits` (who may
still prepare), `committer` (the driver's half). A kind of server adds its statements, errors, types and bulk load.
"""
