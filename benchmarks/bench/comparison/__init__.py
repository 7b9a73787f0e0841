"""This project beside what a user would take instead: the same records, table, machine and measuring for all.

`systems` names them; `ours`, `peers`, `spark` and `raw` start them; `cold`, `warm` and `latency` are one run each;
`meter` and `table` watch; `run` goes through the rounds; `statistics`, `tables`, `chart` and `report` make the page.
"""
