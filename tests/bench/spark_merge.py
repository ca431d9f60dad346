"""Spark's MERGE INTO of as many rows with random keys into the table that `throughput --upsert` made, beside which it is measured.

spark_merge.py --rows N --jars JAR,... FOLDER

FOLDER holds the catalog (SQLite) and its one table, which has the key `employee_id`. The rows are some of the table's own, at random, with
another name; they lie in Parquet files before anything is measured. The statement runs for merge-on-read and for copy-on-write,
each twice: what is told is the second run, of a session that has done it all before. The catalog is put back after each, so that
every statement meets the table as it was made. Prints one JSON document.
"""

import argparse
import json
import pathlib
import shutil
import sqlite3
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "interop"))

from spark.session import session


def table_of(catalog: pathlib.Path) -> str:
    with sqlite3.connect(catalog) as reader:
        ((namespace, name),) = reader.execute("SELECT table_namespace, table_name FROM iceberg_tables").fetchall()
    return f"frazil.{namespace}.{name}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--jars", required=True)
    parser.add_argument("folder", type=pathlib.Path)
    args = parser.parse_args()
    from pyspark.sql.functions import lit

    catalog, saved = args.folder / "catalog.db", args.folder / "catalog.as-made.db"
    shutil.copy(catalog, saved)
    spark = session(
        args.jars,
        **{
            "spark.driver.memory": "8g",
            "spark.local.dir": str(args.folder / "spark"),
            "spark.sql.catalog.frazil": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.frazil.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "spark.sql.catalog.frazil.uri": f"jdbc:sqlite:{catalog}",
            "spark.sql.catalog.frazil.warehouse": f"file://{args.folder}/warehouse",
            "spark.sql.catalog.frazil.cache-enabled": "false",
        },
    )
    table = table_of(catalog)
    source = str(args.folder / "source")
    rows = spark.table(table)
    of = rows.count()
    some = rows.sample(fraction=min(1.0, args.rows / of), seed=7).withColumn("name", lit("merged"))
    some.write.parquet(source)
    spark.read.parquet(source).createOrReplaceTempView("source")
    count = spark.table("source").count()
    seconds = {}
    for mode in ("merge-on-read", "copy-on-write"):
        for _ in range(2):
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.merge.mode' = '{mode}')")
            started = time.monotonic()
            spark.sql(
                f"MERGE INTO {table} t USING source s ON t.employee_id = s.employee_id "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
            seconds[mode] = time.monotonic() - started
            merged = spark.table(table).where("name = 'merged'").count()
            if (merged, spark.table(table).count()) != (count, of):
                raise SystemExit(f"{mode}: {merged} of {count} rows were merged")
            shutil.copy(saved, catalog)
    print(json.dumps({"rows": count, "rows_in_table": of, "seconds": seconds, "version": spark.version}))


if __name__ == "__main__":
    main()
