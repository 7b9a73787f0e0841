"""The run of a pipeline from start to stop: recovery, query runs, requests, and stop signals."""
