"""Days since 1970 to year, month, day and weekday, in integers (Hinnant's algorithm)."""

import datetime

import numpy as np
from numba import cuda, int32


@cuda.jit(device=True)
def civil(days):
    z = days + 719468
    era = z // 146097
    doe = z - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    day = doy - (153 * mp + 2) // 5 + 1
    month = mp + 3 if mp < 10 else mp - 9
    year = yoe + era * 400 + (1 if month <= 2 else 0)
    return int32(year), int32(month), int32(day)


@cuda.jit
def calendar(days, date, leap):
    i = cuda.grid(1)
    if i < days.shape[0]:
        y, m, d = civil(days[i])
        date[i, 0], date[i, 1], date[i, 2] = y, m, d
        date[i, 3] = (days[i] + 3) % 7  # Monday is 0
        leap[i] = y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)


def inputs(rng):
    return {"days": rng.integers(-200_000, 200_000, 60, dtype=np.int32)}


def main(rng):
    date, leap = np.zeros((60, 4), np.int32), np.zeros(60, np.bool_)
    calendar[2, 32](inputs(rng)["days"], date, leap)
    return {"date": date, "leap": leap}


def expected(given):
    dates = [datetime.date(1970, 1, 1) + datetime.timedelta(int(n)) for n in given["days"]]
    return {"date": np.array([(d.year, d.month, d.day, d.weekday()) for d in dates])}
