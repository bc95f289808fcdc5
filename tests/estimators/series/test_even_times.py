import numpy as np
import pytest

from rslm.estimators.series.sampling import UnevenTimesError, check_even


def test_even_times_have_a_step():
    assert check_even([3, 5, 7]) == 2.0
    assert check_even(np.linspace(0.0, 1.0, 11)) == pytest.approx(0.1)
    assert check_even(1e9 + 0.001 * np.arange(5000)) == pytest.approx(0.001, rel=1e-4)  # times have 16 digits
    assert check_even(np.arange("2024-01-01", "2024-03-01", dtype="datetime64[D]")) == np.timedelta64(1, "D")
    seconds = np.datetime64("2024-01-01T00:00:00.000000000") + np.arange(5) * np.timedelta64(30, "s")
    assert check_even(seconds) == np.timedelta64(30, "s")


def test_months_are_even():
    months = np.arange("2023-11", "2025-02", dtype="datetime64[M]")
    assert check_even(months) == np.timedelta64(1, "M")
    assert check_even(months.astype("datetime64[D]")) == np.timedelta64(1, "M")
    assert check_even(months.astype("datetime64[D]") - np.timedelta64(1, "D")) == np.timedelta64(
        1, "M"
    )  # the last days of months
    with pytest.raises(UnevenTimesError, match="samples are absent, 1 of them") as caught:
        check_even(np.delete(months, 2).astype("datetime64[s]"))
    assert caught.value.positions.tolist() == [0, 1, *range(3, 15)]


@pytest.mark.parametrize("kind", ["numbers", "dates"])
def test_absent_samples_get_places(kind):
    days = np.array([0, 1, 2, 5, 6, 9])
    times = days * 0.25 if kind == "numbers" else np.datetime64("2024-02-27") + days
    with pytest.raises(UnevenTimesError, match=r"from times\[2\], .* it is 3 of the usual step") as caught:
        check_even(times)
    assert "samples are absent, 4 of them: put NaN" in str(caught.value)
    assert caught.value.positions.tolist() == days.tolist()
    grid = np.full(10, np.nan)
    grid[caught.value.positions] = days
    assert np.isnan(grid).sum() == 4


def test_a_first_step_that_is_long():
    with pytest.raises(UnevenTimesError, match=r"from times\[0\], 0.0, to times\[1\], 2.0"):
        check_even([0.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize("times", [[0.0, 1.0, 2.4, 3.4, 4.4], [0.0, 1.0, 2.0, 2.0001, 3.0], [0, 1, 2, 10**9]])
def test_times_without_a_grid(times):
    with pytest.raises(UnevenTimesError, match="Interpolate the samples") as caught:
        check_even(times)
    assert caught.value.positions is None


def test_small_errors_do_not_add_up_unseen():
    """Steps that are all a little longer later: each is even to 1e-3, their sum is not."""
    with pytest.raises(UnevenTimesError, match=r"it is 0.9995 of the usual step"):
        check_even(np.cumsum(np.r_[np.ones(1000), np.full(1000, 1.0 + 5e-4)]))


def test_times_that_are_refused():
    with pytest.raises(ValueError, match=r"times\[2\], 1.0, is repeated"):
        check_even([0.0, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"times\[2\], 0.5, is earlier"):
        check_even([0.0, 1.0, 0.5])
    with pytest.raises(ValueError, match=r"times\[1\] is missing"):
        check_even([0.0, np.nan, 2.0])
    with pytest.raises(ValueError, match=r"times\[1\] is missing"):
        check_even(np.array(["2024-01-01", "NaT"], dtype="datetime64[D]"))
    with pytest.raises(TypeError, match="dtype <U10"):
        check_even(["2024-01-01", "2024-01-02"])
    with pytest.raises(ValueError, match="at least two"):
        check_even([1.0])
