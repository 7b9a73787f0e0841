"""Notifications: events of a run, sent to HTTP endpoints by threads that hold up no checkpoint."""
