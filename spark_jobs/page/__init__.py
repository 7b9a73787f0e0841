"""The page of a pipeline, its API and its metrics: over HTTP, in a thread of the driver or a process of its own.

What it shows is read from the history and from head, and what it asks for goes through the channel of requests, as the
command line's does: nothing here shares a lock with a checkpoint, or can hold one up.
"""
