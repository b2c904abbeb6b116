# SPDX-License-Identifier: MIT
"""Tables as pandas, polars and duckdb read them, each where it is there."""
import importlib

import numpy as np

import qkgeom

rng = np.random.default_rng(0)
q, k = rng.normal(size=(2, 600, 3, 8))
report = qkgeom.analyse(q, k, np.arange(600), np.repeat(np.arange(3), 200), buckets=100)


def there(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"left out: {name} is not here")


pandas, polars, duckdb = map(there, ("pandas", "polars", "duckdb"))
nulls = 0
for name in ("heads", "qk", "rotated", "profile", "heatmap", "bins"):
    table = report.table(name)
    readers = {}
    if pandas:
        frame = table.to_pandas()
        readers["pandas"] = {c: [None if x is None or x != x else x for x in frame[c].tolist()] for c in frame.columns}
    if polars:
        readers["polars"] = polars.DataFrame(table).to_dict(as_series=False)
    if duckdb:
        found = duckdb.from_arrow(table)
        readers["duckdb"] = dict(zip(found.columns, map(list, zip(*found.fetchall()))))
    for reader, columns in readers.items():
        assert columns == table.to_dict() and list(columns) == table.columns, (reader, name)
    nulls += sum(x is None for c in table.columns for x in table[c])
assert nulls > 0, "no table tests a missing value"
