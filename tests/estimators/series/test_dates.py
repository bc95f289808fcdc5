"""Dates in the index of a Series: uneven, unsorted and repeated ones are refused; the calendar is even."""

import numpy as np
import pandas as pd
import pytest

from rslm import HankelModel
from rslm.estimators.series.dates import check_dates

DAYS = pd.date_range("2024-01-01", periods=60)


def series(index):
    return pd.Series(np.sin(0.5 * np.arange(len(index))) + 3.0, index=index)


@pytest.mark.parametrize("freq", ["h", "D", "B", "W", "MS", "QS", "YS", "2D", "BMS"])
def test_clock_and_calendar_are_even(freq):
    dates = pd.date_range("2024-01-01", periods=40, freq=freq)
    check_dates(series(dates), "y")
    check_dates(series(pd.DatetimeIndex(dates.to_numpy())), "y")  # without its frequency
    check_dates(series(dates.tz_localize("Europe/Vienna", nonexistent="shift_forward", ambiguous=False)[:20]), "y")


def test_periods_and_what_has_no_dates():
    months = pd.period_range("2024-01", periods=20, freq="M")
    check_dates(series(months), "y")
    check_dates(series(np.arange(20)[::-1]), "y")
    check_dates(np.arange(20.0), "y")
    check_dates([1.0, 2.0], "y")
    with pytest.raises(ValueError, match=r"2024-05 follows 2024-03.* 1 of 20 samples are absent.*pd\.period_range"):
        check_dates(series(months.delete(3)), "y")


def test_a_model_refuses_absent_dates_and_takes_them_as_missing():
    y = series(DAYS).drop(DAYS[[5, 20, 21]])
    with pytest.raises(ValueError, match=r"2024-01-07 .*follows 2024-01-05 .*3 of 60 .*y\.asfreq\('D'\).*to_numpy"):
        HankelModel().fit(y)
    even = HankelModel(rank=3).fit(y.asfreq("D"))
    np.testing.assert_allclose(even.signal_, series(DAYS), atol=1e-6)
    HankelModel(rank=3).fit(y.to_numpy())  # the user's decision


@pytest.mark.parametrize(
    ("dates", "message"),
    [
        (DAYS[::-1], r"not in order: 2024-02-28 .*follows 2024-02-29 .*y\.sort_index\(\)"),
        (DAYS.insert(3, DAYS[3]), r"1 dates in the index of y are repeated, the first is 2024-01-04 .*groupby"),
        (DAYS.insert(3, pd.NaT), r"missing dates \(NaT\)"),
        (DAYS[:3].append(DAYS[3:] + pd.Timedelta("3h")), r"2024-01-04 03:00:00 follows .*resample"),
        (pd.date_range("2024-01-01", periods=30, freq="B").delete(11), r"2024-01-17 .* follows 2024-01-15 .*'B'"),
        (pd.date_range("2024-01-01", periods=30, freq="MS").delete(4), r"2024-06-01 .* follows 2024-04-01 .*'MS'"),
    ],
)
def test_what_is_said(dates, message):
    with pytest.raises(ValueError, match=message):
        HankelModel().fit(series(dates))


@pytest.mark.parametrize(("make", "frequency"), [(pd.bdate_range, "B"), (pd.date_range, "D")])
def test_days_of_a_time_zone_are_those_of_its_clock(make, frequency):
    days = make(
        "2020-01-06", periods=120, tz="Europe/Berlin"
    )  # with a day of 23 hours; midnight is a day before in UTC
    check_dates(pd.Series(0.0, index=days), "y")
    with pytest.raises(ValueError, match=rf"1 of 120 samples are absent.*asfreq\('{frequency}'\)"):
        check_dates(pd.Series(0.0, index=pd.DatetimeIndex(list(days.delete(17)))), "y")
