"""A Spark session of this process that reads and writes Iceberg tables."""

import os


def session(jars: str, **settings: str):
    """`jars` are the paths of Iceberg's runtime and what else the session needs, comma-separated."""
    from pyspark.sql import SparkSession

    # Nothing of it is listened to from elsewhere.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("frazil")
    plain = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.driver.memory": "2g",
    }
    for name, value in {**plain, **settings}.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made
