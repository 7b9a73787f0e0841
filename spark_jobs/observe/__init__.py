"""Facts of a pipeline for people and programs: events, log lines, history, traces, the run lock. Decides nothing."""
