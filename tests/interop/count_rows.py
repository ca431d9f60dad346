"""PyIceberg's count of a demo's table. count_rows.py --catalog DB|glue|s3tables:ARN|rest:URL --warehouse URL --table NAME --report FILE

The table is named by a catalog in a file, by the one in Glue, by one that speaks REST, or by S3 Tables, which is asked for the metadata file:
PyIceberg reaches it by its REST endpoint only, which the service does not have. The service is the one of AWS_ENDPOINT_URL, with the credentials of the environment.
"""

import argparse
import json
import os
import pathlib
import sys

import boto3
import pyarrow.compute
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("catalog", "warehouse", "table", "report"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    place = {"endpoint": "AWS_ENDPOINT_URL", "region": "AWS_REGION", "access-key-id": "AWS_ACCESS_KEY_ID",
             "secret-access-key": "AWS_SECRET_ACCESS_KEY"}
    properties = {f"{service}.{name}": os.environ[variable] for service in ("s3", "glue") for name, variable in place.items()}
    properties["warehouse"] = args.warehouse
    if args.catalog.startswith("s3tables:"):
        namespace, name = args.table.split(".")
        named = {"tableBucketARN": args.catalog.removeprefix("s3tables:"), "namespace": namespace, "name": name}
        entry = boto3.client("s3tables", region_name=os.environ["AWS_REGION"]).get_table_metadata_location(**named)
        table = StaticTable.from_metadata(entry["metadataLocation"], properties)
        if table.location() != entry["warehouseLocation"]:
            sys.exit(f"{table.location()} is not where S3 Tables put the table: {entry}")
    else:
        if args.catalog == "glue":
            catalog = GlueCatalog("glue", **properties)
        elif args.catalog.startswith("rest:"):
            files = {name: value for name, value in properties.items() if name.startswith("s3.")}
            catalog = RestCatalog("rest", uri=args.catalog.removeprefix("rest:"), **files)
        else:
            catalog = SqlCatalog("frazil", uri=f"sqlite:///{pathlib.Path(args.catalog).resolve()}", **properties)
        table = catalog.load_table(args.table)
    rows = table.scan(selected_fields=("employee_id",)).to_arrow()
    with open(args.report) as file:
        expected = json.load(file)["rows_in_table"]
    print(f"PyIceberg reads {rows.num_rows} rows, {expected} are in the table")
    nulls = pyarrow.compute.sum(pyarrow.compute.is_null(rows["employee_id"])).as_py()
    sys.exit(0 if rows.num_rows == expected and not nulls else 1)


if __name__ == "__main__":
    main()
