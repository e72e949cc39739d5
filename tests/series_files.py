"""CSV files of series, for tests."""

HOURLY = [f"2020-01-{1 + hour // 24:02d} {hour % 24:02d}:00:00" for hour in range(48)]


def write(path, header, rows):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")
    return path


def with_times(folder, times, values=None):
    rows = zip(times, values or range(len(times)), strict=True)
    return write(folder / "times.csv", "date,price", rows)
