"""PyIceberg's count of a demo's table. count_rows.py --catalog DB|glue|rest:URL --warehouse URL --table NAME --report FILE

The table is named by a catalog in a file, by the one in Glue, or by one that speaks REST. The service is the one of AWS_ENDPOINT_URL, with the credentials of the environment.
"""

import argparse
import json
import os
import pathlib
import sys

import pyarrow.compute
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("catalog", "warehouse", "table", "report"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    place = {"endpoint": "AWS_ENDPOINT_URL", "region": "AWS_REGION", "access-key-id": "AWS_ACCESS_KEY_ID",
             "secret-access-key": "AWS_SECRET_ACCESS_KEY"}
    properties = {f"{service}.{name}": os.environ[variable] for service in ("s3", "glue") for name, variable in place.items()}
    properties["warehouse"] = args.warehouse
    if args.catalog == "glue":
        catalog = GlueCatalog("glue", **properties)
    elif args.catalog.startswith("rest:"):
        catalog = RestCatalog("rest", uri=args.catalog.removeprefix("rest:"))
    else:
        catalog = SqlCatalog("frazil", uri=f"sqlite:///{pathlib.Path(args.catalog).resolve()}", **properties)
    rows = catalog.load_table(args.table).scan(selected_fields=("employee_id",)).to_arrow()
    with open(args.report) as file:
        expected = json.load(file)["rows_in_table"]
    print(f"PyIceberg reads {rows.num_rows} rows, {expected} are in the table")
    nulls = pyarrow.compute.sum(pyarrow.compute.is_null(rows["employee_id"])).as_py()
    sys.exit(0 if rows.num_rows == expected and not nulls else 1)


if __name__ == "__main__":
    main()
