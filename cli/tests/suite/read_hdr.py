"""Reads the files of `--hdr` with HdrHistogram's own package, and checks them against the report."""

import json

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

RANGE = (1, 60_000_000_000, 3)

with open("report.json", encoding="utf-8") as file:
    report = json.load(file)


def same(what, found, expected):
    assert found == expected, f"{what}: {found}, expected {expected}"


def near(what, found, expected, share):
    assert abs(found - expected) <= share * expected, f"{what}: {found}, expected {expected}"


def up_to(histogram, value):
    """The number of values in the buckets up to that of this value."""
    last = histogram._counts_index_for(value)
    return sum(histogram.get_count_at_index(at) for at in range(last + 1))


def read_log():
    """The log: its tags add up to the report's distributions."""
    reader = HistogramLogReader("run.hlog", HdrHistogram(*RANGE))
    tags, intervals = {}, 0
    while (interval := reader.get_next_interval_histogram()) is not None:
        tag = interval.get_tag()
        tags.setdefault(tag, HdrHistogram(*RANGE)).add(interval)
        intervals += tag == "corrected"
    assert {"corrected", "naive"} <= tags.keys(), tags.keys()
    same("intervals", intervals, len(report["series"]["intervals"]))
    for tag in ("corrected", "naive"):
        part = report[tag]
        same(f"{tag}: count", tags[tag].get_total_count(), part["count"])
        # Intervals have two digits.
        share = 0.01 if tag == "corrected" else 0.001
        near(f"{tag}: max", tags[tag].get_max_value() / 1e3, part["max"], share)
        near(f"{tag}: mean", tags[tag].get_mean_value() / 1e3, part["mean"], share)
    start = report["started_at"]
    assert start.endswith("Z") and 0 < reader.get_start_time_sec(), start


def read_percentiles():
    """The percentiles: each line has the first bucket that reaches its share of the values."""
    whole = HdrHistogram.decode(report["corrected"]["histogram"])
    total = whole.get_total_count()
    with open("run.hgrm", encoding="utf-8") as file:
        lines = [line.split() for line in file if line.strip()]
    same("columns", lines[0], ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"])
    rows = [row for row in lines[1:] if not row[0].startswith("#[")]
    assert 10 < len(rows), rows
    for row in rows:
        value_ns, share, count = round(float(row[0]) * 1e3), float(row[1]), int(row[2])
        same(f"{row}: count", up_to(whole, value_ns), count)
        below = up_to(whole, whole.get_lowest_equivalent_value(value_ns) - 1)
        # Shares are shown to twelve digits.
        assert below - 1e-9 * total <= share * total <= count + 1e-9 * total, row
        if len(row) == 4:
            near(f"{row}", float(row[3]), 1 / (1 - share), 0.01)
    same("the last line", (float(rows[-1][1]), len(rows[-1])), (1.0, 3))
    footer = " ".join(word for row in lines if row[0].startswith("#[") for word in row)
    numbers = [part.split("=")[1].strip(" ]#[") for part in footer.replace("]", ",").split(",") if "=" in part]
    mean, deviation, largest, count, buckets, sub_buckets = (float(number) for number in numbers)
    near("mean", mean, whole.get_mean_value() / 1e3, 1e-3)
    near("standard deviation", deviation, whole.get_stddev() / 1e3, 1e-3)
    near("max", largest, whole.get_max_value() / 1e3, 1e-6)
    same("count", int(count), total)
    same("buckets", (int(buckets), int(sub_buckets)), (whole.bucket_count, whole.sub_bucket_count))


def compare_ranks():
    """Python rounds a rank to the nearest where ours is rounded up: at most one rank apart."""
    whole = HdrHistogram.decode(report["corrected"]["histogram"])
    total = whole.get_total_count()
    for key, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        ours = report["corrected"][key]
        if ours is None:
            continue
        ranks = (up_to(whole, round(ours * 1e3)), up_to(whole, whole.get_value_at_percentile(share * 100)))
        assert ranks[1] <= ranks[0], f"{key}: {ranks} of {total}"
        assert share * total <= ranks[0] + 1e-9 * total, f"{key}: {ranks} of {total}"


read_log()
read_percentiles()
compare_ranks()
