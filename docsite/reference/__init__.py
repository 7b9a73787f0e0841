"""Generators of the reference. A page is generated from the code each time the site is built."""
