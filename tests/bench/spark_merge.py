"""Spark's MERGE INTO of as many rows with random keys into the table that `throughput --upsert` made, beside which it is measured.

spark_merge.py --rows N --jars JAR,... FOLDER

FOLDER holds the catalog (SQLite) and its one table, which has the key `employee_id`. The rows are some of the table's own, at random, with
another name; they lie in Parquet files before anything is measured. The statement runs for merge-on-read and for copy-on-write,
each twice: what is told is the second run, of a session that has done it all before. The catalog names the table's first metadata again after
each, so that every statement meets the table as it was made, which is checked. Prints one JSON document.
"""

import argparse
import json
import pathlib
import sqlite3
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "interop"))

from spark.session import session


class Entry:
    """The table's, in the catalog: what it names at first."""

    def __init__(self, catalog: pathlib.Path):
        self.catalog = catalog
        with sqlite3.connect(catalog) as reader:
            ((namespace, name, *self.made),) = reader.execute(
                "SELECT table_namespace, table_name, metadata_location, previous_metadata_location FROM iceberg_tables"
            ).fetchall()
        self.table = f"frazil.{namespace}.{name}"

    def put_back(self) -> None:
        with sqlite3.connect(self.catalog, timeout=60) as writer:
            writer.execute("UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ?", self.made)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--jars", required=True)
    parser.add_argument("folder", type=pathlib.Path)
    args = parser.parse_args()
    from pyspark.sql.functions import lit

    catalog = args.folder / "catalog.db"
    entry = Entry(catalog)
    spark = session(
        args.jars,
        **{
            "spark.driver.memory": "8g",
            "spark.local.dir": str(args.folder / "spark"),
            "spark.sql.catalog.frazil": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.frazil.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "spark.sql.catalog.frazil.uri": f"jdbc:sqlite:{catalog}",
            "spark.sql.catalog.frazil.jdbc.busy_timeout": "30000",
            # Its look for the catalog's tables would keep a lock on the file.
            "spark.sql.catalog.frazil.jdbc.init-catalog-tables": "false",
            "spark.sql.catalog.frazil.warehouse": f"file://{args.folder}/warehouse",
            "spark.sql.catalog.frazil.cache-enabled": "false",
        },
    )
    table = entry.table
    source = str(args.folder / "source")
    rows = spark.table(table)
    of = rows.count()
    some = rows.sample(fraction=min(1.0, args.rows / of), seed=7).withColumn("name", lit("merged"))
    some.write.parquet(source)
    spark.read.parquet(source).createOrReplaceTempView("source")
    count = spark.table("source").count()
    seconds = {}

    def merged() -> int:
        return spark.table(table).where("name = 'merged'").count()

    for mode in ("merge-on-read", "copy-on-write"):
        for _ in range(2):
            if merged() != 0:
                raise SystemExit("the table is not as it was made")
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.merge.mode' = '{mode}')")
            started = time.monotonic()
            spark.sql(
                f"MERGE INTO {table} t USING source s ON t.employee_id = s.employee_id "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
            seconds[mode] = time.monotonic() - started
            if (merged(), spark.table(table).count()) != (count, of):
                raise SystemExit(f"{mode}: {merged()} of {count} rows were merged")
            entry.put_back()
    print(json.dumps({"rows": count, "rows_in_table": of, "seconds": seconds, "version": spark.version}))


if __name__ == "__main__":
    main()
