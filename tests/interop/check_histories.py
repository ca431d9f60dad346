"""Holds other people's readers against what a dictionary says that tables of random histories hold.

check_histories.py --dir DIR --engines pyiceberg,duckdb [--some N --some-engines chdb,spark] [--jars JAR,...]

DIR is what `histories --dir` wrote: tables, and histories.jsonl beside them. The engines of --engines read every table, those of
--some-engines the first N of each mode. Prints a line for each mode and engine, and fails on the first difference of each.
"""

import argparse
import collections
import json
import pathlib
import sys

import pyarrow as pa

from read_table import ENGINES, plain


class Readers:
    """Readers by name: each gives the rows of a table in the order of some columns."""

    def __init__(self, folder: pathlib.Path, jars: str | None):
        self.folder, self.jars, self.spark = folder, jars, None

    def rows(self, engine: str, table: str, columns: list[str]) -> list[list]:
        if engine == "spark":
            return self.by_spark(table, columns)
        read: pa.Table = ENGINES[engine](self.folder, table).select(columns)
        texts = engine == "chdb"
        rows = []
        for row in read.to_pylist():
            # ClickHouse has one type for text and bytes.
            cells = [row[column] for column in columns]
            rows.append([c.decode() if texts and isinstance(c, bytes) else plain(c) for c in cells])
        return rows

    def by_spark(self, table: str, columns: list[str]) -> list[list]:
        if self.spark is None:
            from spark.session import session

            self.spark = session(self.jars)
        from read_table import metadata_file

        read = self.spark.read.format("iceberg").load(metadata_file(self.folder, table))
        cells = [f"unix_micros({c}) AS {c}" if c in ("at", "_deleted_at") else c for c in columns]
        return [list(row) for row in read.selectExpr(*cells).collect()]


def order(row: list) -> tuple:
    return tuple((cell is not None, cell) for cell in row)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=pathlib.Path, required=True)
    parser.add_argument("--engines", default="pyiceberg,duckdb")
    parser.add_argument("--some", type=int, default=0)
    parser.add_argument("--some-engines", default="chdb")
    parser.add_argument("--jars", help="what Spark needs of Iceberg, comma-separated")
    args = parser.parse_args()
    folder = args.dir.resolve()
    readers = Readers(folder, args.jars)
    histories = [json.loads(line) for line in (folder / "histories.jsonl").read_text().splitlines()]
    seen, right, wrong = collections.Counter(), collections.Counter(), 0
    for history in histories:
        mode = history["mode"]
        engines = [engine for engine in args.engines.split(",") if engine]
        if seen[mode] < args.some:
            engines += args.some_engines.split(",")
        seen[mode] += 1
        wanted = sorted(history["rows"], key=order)
        for engine in engines:
            found = sorted(readers.rows(engine, history["table"], history["columns"]), key=order)
            if found == wanted:
                right[mode, engine] += 1
                continue
            wrong += 1
            different = next((pair for pair in zip(found, wanted) if pair[0] != pair[1]), None)
            print(f"{engine} reads {history['table']} otherwise: {len(found)} rows for {len(wanted)}; first {different}")
    for (mode, engine), count in sorted(right.items()):
        print(f"{mode:<18} {engine:<10} {count:>5} of {seen[mode]} histories as the dictionary has them")
    if wrong or not histories:
        sys.exit(1)


if __name__ == "__main__":
    main()
