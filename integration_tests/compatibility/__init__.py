"""The matrix of PySpark versions, Python versions and ways: what runs, what is refused, and the record of both."""
