"""Writes pyarrow.parquet, a column of each type of PyArrow, int96.parquet and nulls.parquet, which
TestPyArrow reads."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

day, noon = dt.date(2023, 1, 31), dt.datetime(2023, 1, 31, 12)
types = {
    "id": pa.array(["a", "b", "c"]),
    "i8": pa.array([1, -2, None], pa.int8()),
    "u32": pa.array([1, 4_000_000_000, 3], pa.uint32()),
    "u64": pa.array([1, 2**64 - 1, 3], pa.uint64()),
    "f64": pa.array([1e10, float("nan"), 2]),
    "bool": pa.array([True, False, None]),
    "text": pa.array(["x", "y", None]),
    "large": pa.array(["x", "y", "x"], pa.large_string()),
    "dictionary": pa.array(["x", "y", "x"]).dictionary_encode(),
    "date": pa.array([day] * 3),
    "seconds": pa.array([noon] * 3, pa.timestamp("s")),
    "zone": pa.array([noon] * 3, pa.timestamp("us", tz="Europe/Oslo")),
    "decimal": pa.array([Decimal("1.25"), Decimal("-0.50"), None], pa.decimal128(38, 2)),
    "half": pa.array(np.ones(3, np.float16)),
    "bytes": pa.array([b"\xff", b"y", b"x"]),
    "nulls": pa.nulls(3),
    "list": pa.array([[1], [2], None]),
    "struct": pa.array([{"p": 1}] * 3),
}
pq.write_table(pa.table(types), "pyarrow.parquet", row_group_size=2, compression="zstd")
pq.write_table(
    pa.table({"id": types["id"], "at": types["seconds"]}),
    "int96.parquet",
    use_deprecated_int96_timestamps=True,
)
pq.write_table(pa.table({"id": ["d", "e"], "x": pa.nulls(2), "city": pa.nulls(2)}), "nulls.parquet")
