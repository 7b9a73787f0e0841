"""Checks of `eos doctor` for a prefix in an object store: the store's promises, and its rules for old objects."""
