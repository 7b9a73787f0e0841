"""What the tests of whole pipelines are made of: a pipeline as real processes, its workload, and the oracle."""
