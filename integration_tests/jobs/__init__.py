"""Jobs that use the product as they should not, run as processes by the tests."""
