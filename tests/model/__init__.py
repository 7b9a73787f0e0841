"""The protocol as an exhaustive model of its own, apart from the code."""
