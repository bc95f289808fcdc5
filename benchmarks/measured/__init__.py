"""The numbers of the documentation: measured, stored, and written into its pages by one command (`make benchmarks`).

studies.py   what is run, and which reports it writes
store.py     reports as they were measured, in benchmarks/stored: numbers, command, commit, date, machine
pages.py     the places in README.md and docs/ that stored numbers are written into
tables/      one function a place: stored reports in, Markdown out

A place in a page is between `<!-- measured: NAME -->` and `<!-- end -->`. A test fails if what is there is not what the
stored reports say, so no number can be edited by hand.
"""
