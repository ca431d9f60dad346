"""Reads an Iceberg table of an embedded frazil folder with somebody else's reader.

read_table.py --dir DIR --table NAMESPACE.NAME --engine pyiceberg|duckdb|chdb [--columns A,B,...] [--json] [--rows]

Prints the table's fingerprint (checksum.py), or with --rows the rows as JSON Lines. DIR is what `frazil --dir` was
given: the catalog is DIR/catalog.db, read as the standard SQL catalog layout under the catalog name `frazil`.
"""

import argparse
import datetime
import json
import os
import pathlib
import sqlite3
import time

import pyarrow as pa

from checksum import fingerprint


def metadata_file(folder: pathlib.Path, table: str) -> str:
    """The path of the table's current metadata. DuckDB and ClickHouse read no SQL catalog: they are given the file."""
    namespace, name = table.rsplit(".", 1)
    with sqlite3.connect(f"file:{folder / 'catalog.db'}?mode=ro", uri=True) as catalog:
        row = catalog.execute(
            "SELECT metadata_location FROM iceberg_tables "
            "WHERE catalog_name = 'frazil' AND table_namespace = ? AND table_name = ?",
            (namespace, name),
        ).fetchone()
    if row is None:
        raise SystemExit(f"no table {table} in {folder / 'catalog.db'}")
    return row[0].removeprefix("file://")


def by_pyiceberg(folder: pathlib.Path, table: str) -> pa.Table:
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("frazil", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    return catalog.load_table(table).scan().to_arrow()


def by_duckdb(folder: pathlib.Path, table: str) -> pa.Table:
    import duckdb
    import duckdb_extension_avro
    import duckdb_extension_iceberg

    def binary(package, name: str) -> str:
        found = sorted(pathlib.Path(package.__file__).parent.rglob(f"{name}.duckdb_extension"))
        if not found:
            raise SystemExit(f"{package.__name__} carries no {name}.duckdb_extension")
        return str(found[0])

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"})
    connection.execute(f"LOAD '{binary(duckdb_extension_avro, 'avro')}'")
    connection.execute(f"LOAD '{binary(duckdb_extension_iceberg, 'iceberg')}'")
    path = metadata_file(folder, table).replace("'", "''")
    return connection.execute(f"SELECT * FROM iceberg_scan('{path}')").to_arrow_table()


def by_chdb(folder: pathlib.Path, table: str) -> pa.Table:
    path = pathlib.Path(metadata_file(folder, table))
    root = path.parent.parent
    # ClickHouse reads local files only below its working folder, and takes the metadata file relative to the table.
    os.chdir(folder)
    import chdb

    quote = lambda text: "'" + str(text).replace("\\", "\\\\").replace("'", "\\'") + "'"
    # ClickHouse has one type for text and bytes; asked for as bytes, it need not be UTF-8.
    query = (
        f"SELECT * FROM icebergLocal({quote(root)}, "
        f"SETTINGS iceberg_metadata_file_path = {quote(path.relative_to(root))}) "
        "SETTINGS output_format_arrow_string_as_string = 0"
    )
    return pa.ipc.open_stream(chdb.query(query, "ArrowStream").bytes()).read_all()


ENGINES = {"pyiceberg": by_pyiceberg, "duckdb": by_duckdb, "chdb": by_chdb}


def plain(value):
    """A cell as JSON: instants as microseconds since the epoch, bytes as hexadecimal text."""
    if isinstance(value, datetime.datetime):
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc if value.tzinfo else None)
        return (value - epoch) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return value.toordinal() - datetime.date(1970, 1, 1).toordinal()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=pathlib.Path, required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--engine", choices=ENGINES, required=True)
    parser.add_argument("--columns", help="only these, comma-separated")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rows", action="store_true")
    args = parser.parse_args()
    if args.rows and args.engine == "chdb":
        raise SystemExit("--rows: ClickHouse does not tell text from bytes; take another engine")
    started = time.monotonic()
    table = ENGINES[args.engine](args.dir.resolve(), args.table)
    if args.columns:
        table = table.select(args.columns.split(","))
    if args.rows:
        for row in table.to_pylist():
            print(json.dumps(plain(row), sort_keys=True))
        return
    result = {"engine": args.engine, "table": args.table, **fingerprint(table)}
    if args.json:
        print(json.dumps(result))
        return
    print(f"{args.engine}: {result['rows']} rows in {time.monotonic() - started:.1f} s, row_sum {result['row_sum']}")
    for name, column in result["columns"].items():
        print(f"  {name:<24} {column['values']:>12} values  sum {column['sum']}")


if __name__ == "__main__":
    main()
