"""The experiments of the paper: its tables and figures, with every baseline, by one command (`make paper`).

studies/   one file an experiment: data, protocol, tables and figures
methods/   one file a method, in a folder for each experiment; what a method gets and does is in methods/__init__.py
observed.py, record.py   what methods of completion work on, and the clock that follows them
cells.py   the unit of work: it is stored when it is done, and not computed again
page.py    writes docs/paper.md

benchopt has the same parts: an objective, data sets and one file a solver. It is not used because it has no place for
what is most of the work here: choosing the regularisation of every method on a part of the training set before the
timed run, and tables of several splits with the numbers of the paper next to them. It also times a solver by running it
again from the start with more and more iterations, or from a callback whose own time counts; here the clock stops
while an iterate is scored.
"""
