"""Tests that need no service: units, properties, and the simulation of the protocol."""
