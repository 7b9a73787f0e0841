"""A source: the numbers below a bound."""
