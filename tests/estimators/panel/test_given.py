"""Panels in all forms, and what is wrong with some of them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from panels import long_columns, make_panel
from rslm import PanelCompletion
from rslm.estimators.panel.given import panel_of

ROLES = {"unit": "who", "time": "when", "outcome": "y"}


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_long_tables_are_the_panel(frame):
    Y, treated, _ = make_panel()
    panel = panel_of(frame(long_columns(Y, treated)), "on", **ROLES)
    assert np.array_equal(panel.outcomes, Y)
    assert np.array_equal(panel.treated, treated)
    assert list(panel.periods[:2]) == [2000, 2001]
    assert panel.units[3] == "unit 03"


def test_a_row_that_is_missing_is_a_missing_outcome():
    Y, treated, _ = make_panel()
    table = pd.DataFrame(long_columns(Y, treated))
    panel = panel_of(table[(table.who != "unit 20") | (table.when != 2004)], "on", **ROLES)
    assert np.isnan(panel.outcomes[20, 4])
    assert np.isnan(panel.outcomes).sum() == 1


def test_covariates_of_a_long_table():
    Y, treated, _ = make_panel()
    table = pd.DataFrame(long_columns(Y, treated)).assign(x=lambda t: 2.0 * t.y, z=lambda t: t.y**2)
    panel = panel_of(table, "on", **ROLES, covariates=["x", "z"])
    assert np.array_equal(panel.covariates, np.stack([2.0 * Y, Y**2]))
    with pytest.raises(ValueError, match=r"covariate 'x' of unit 'unit 05' in period 2003 is nan"):
        panel_of(
            table.assign(x=table.x.mask((table.who == "unit 05") & (table.when == 2003))), "on", **ROLES, covariates="x"
        )


def test_tables_with_a_row_per_unit():
    Y, treated, _ = make_panel()
    units, years = [f"u{k}" for k in range(len(Y))], range(1990, 1990 + Y.shape[1])
    outcomes = pd.DataFrame(Y, index=units, columns=years)
    panel = panel_of(outcomes, pd.DataFrame(treated, index=units, columns=years))
    assert panel.unit(2) == "unit 'u2'"
    assert panel.period(1) == "period 1991"
    with pytest.raises(ValueError, match="the same index"):
        panel_of(outcomes, pd.DataFrame(treated, columns=years))


def changed(**changes):
    Y, treated, _ = make_panel()
    return pd.DataFrame(long_columns(Y, treated)).assign(**changes)


def test_rows_that_repeat_a_unit_and_period():
    table = changed()
    table = pd.concat([table, table[(table.who == "unit 07") & (table.when == 2009)]])
    with pytest.raises(ValueError, match=r"1 row repeats .* unit 'unit 07' in period 2009"):
        panel_of(table, "on", **ROLES)


def test_a_gap_in_time():
    table = changed()
    with pytest.raises(ValueError, match="1 period is missing between 2007 and 2009"):
        panel_of(table[table.when != 2008], "on", **ROLES)
    every_other = table[table.when % 2 == 0]  # equally spaced: no gap
    assert panel_of(every_other, "on", **ROLES).shape == (24, 9)


def dated(when):
    """The table with other names of its periods, a function of the number of the period from 0."""
    table = changed()
    return table.assign(when=[when(int(year) - 2000) for year in table.when])


@pytest.mark.parametrize(
    "when",
    [
        lambda k: pd.Timestamp(2000, 1, 1) + pd.Timedelta(days=k),
        lambda k: pd.Timestamp(2000 + k, 12, 31),
        lambda k: pd.Timestamp(2000, 1, 1) + pd.offsets.MonthEnd(k + 1),
        lambda k: pd.Timestamp(2000, 1, 3) + pd.Timedelta(weeks=k),
        lambda k: f"{2000 + k // 12}-{k % 12 + 1:02}-01",
        lambda k: f"{2000 + k // 12}-{k % 12 + 1:02}",
        lambda k: str(2000 + k),
    ],
    ids=["days", "years", "months", "weeks", "text of dates", "text of months", "text of years"],
)
def test_a_gap_between_dates(when):
    table = dated(when)
    assert panel_of(table, "on", **ROLES).shape == (24, 18)
    with pytest.raises(ValueError, match="column 'when' has a gap: 2 periods are missing between"):
        panel_of(table[~table.when.isin([when(4), when(5)])], "on", **ROLES)


def test_days_of_business_have_no_gaps_at_weekends():
    days = pd.bdate_range("2000-01-03", periods=18)
    assert panel_of(dated(lambda k: days[k]), "on", **ROLES).shape == (24, 18)


def test_a_gap_between_columns_and_columns_in_another_order():
    Y, treated, _ = make_panel()
    years = np.arange(1990, 1990 + Y.shape[1])
    with pytest.raises(ValueError, match="columns of outcomes has a gap: 1 period is missing between 1994 and 1996"):
        panel_of(pd.DataFrame(Y, columns=years + (years > 1994)), treated)
    with pytest.raises(ValueError, match="must be in the order of time; 2006 follows 2007"):
        panel_of(pd.DataFrame(Y, columns=years[::-1]), treated)


def test_texts_are_in_the_order_of_the_numbers_in_them():
    panel = panel_of(dated(lambda k: f"week {k + 1}"), "on", **ROLES)
    assert panel.periods.tolist() == [f"week {k + 1}" for k in range(18)]
    assert np.array_equal(panel.treated, make_panel()[1])


def test_texts_whose_order_is_not_known():
    with pytest.raises(ValueError, match="column 'when' holds periods such as 'aa', and their order in time"):
        panel_of(dated(lambda k: "a" * (k + 2)), "on", **ROLES)


def test_messages_show_dates_as_dates():
    table = dated(lambda k: pd.Timestamp(2000, 1, 1) + pd.Timedelta(days=k))
    with pytest.raises(ValueError, match=r"unit 'unit 07' in period 2000-01-10, in rows"):
        panel_of(pd.concat([table, table[(table.who == "unit 07") & (table.when == "2000-01-10")]]), "on", **ROLES)


def test_a_treatment_that_begins_nobody_knows_when():
    table = changed()
    with pytest.raises(ValueError, match=r"unit 'unit 02' has no row in period 2011, just before .* in period 2012"):
        panel_of(table[(table.who != "unit 02") | (table.when != 2011)], "on", **ROLES)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda Y, D: D.__setitem__(3, True), "unit 3 is treated from the first period on, period 0"),
        (lambda Y, D: D.__setitem__((slice(None), 14), True), "treated in period 14, unit 0 for example"),
        (lambda Y, D: D.__setitem__((slice(None), slice(5, None)), True), "treated in period 5, unit 0 for example"),
        (lambda Y, D: D.__setitem__(slice(None), False), "no entry of the 24 × 18 panel is treated"),
        (lambda Y, D: Y.__setitem__(9, np.nan), "unit 9 has no outcome at all"),
        (lambda Y, D: Y.__setitem__((slice(None), 2), np.nan), "period 2 has no outcome at all"),
        (lambda Y, D: Y.__setitem__((4, 2), np.inf), "that of unit 4 in period 2 is inf"),
        (lambda Y, D: Y.__setitem__((0, slice(0, 10)), np.nan), "unit 0 has no outcome before period 10"),
        (
            lambda Y, D: Y.__setitem__(D, np.nan),
            "all outcomes under treatment are missing, for example of unit 0 in period 10",
        ),
    ],
)
def test_panels_that_determine_no_effect(spoil, message):
    Y, treated, _ = make_panel()
    spoil(Y, treated)
    with pytest.raises(ValueError, match=message):
        PanelCompletion().fit(Y, treated)


def test_units_and_periods_that_nothing_connects():
    Y, treated, _ = make_panel()
    Y[:12, 9:], Y[12:, :9], treated[:] = np.nan, np.nan, False
    treated[20, 15:] = True
    with pytest.raises(ValueError, match="do not connect unit 12 with period 0"):
        PanelCompletion().fit(Y, treated)


def test_masks_that_do_not_fit():
    Y, treated, _ = make_panel()
    with pytest.raises(ValueError, match=r"the shape of outcomes, \(24, 18\); got \(24, 17\)"):
        PanelCompletion().fit(Y, treated[:, :-1])
    with pytest.raises(ValueError, match="that of unit 0 in period 1 is 2"):
        PanelCompletion().fit(Y, treated + 2.0 * (np.arange(18) == 1))
    with pytest.raises(ValueError, match="treated must be a mask"):
        PanelCompletion().fit(Y)


def test_names_of_columns():
    with pytest.raises(ValueError, match="time is missing"):
        panel_of(changed(), "on", unit="who", outcome="y")
    with pytest.raises(ValueError, match=r"outcome must be the name of a column.*got 'z'"):
        panel_of(changed(), "on", unit="who", time="when", outcome="z")
    table = changed()
    unknown = table.assign(on=table.on.mask((table.who == "unit 00") & (table.when == 2003)))
    with pytest.raises(ValueError, match="that of unit 'unit 00' in period 2003 is nan"):
        panel_of(unknown, "on", **ROLES)


def test_a_covariate_whose_coefficient_is_not_determined():
    Y, treated, _ = make_panel()
    table = changed(x=1.0, z=changed().y ** 2)
    with pytest.raises(ValueError, match="covariate 'x' is a sum of a number for each unit"):
        panel_of(table, "on", **ROLES, covariates=["z", "x"])
    X = np.random.default_rng(0).standard_normal((*Y.shape, 1))
    with pytest.raises(ValueError, match="covariate 1 is a sum"):
        panel_of(Y, treated, covariates=np.concatenate([X, 2 * X], axis=2))


def test_a_column_with_two_roles():
    with pytest.raises(ValueError, match="column 'when' cannot have two roles"):
        panel_of(changed(), "on", **ROLES, covariates=["when"])
