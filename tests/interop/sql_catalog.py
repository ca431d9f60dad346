"""PyIceberg on a catalog in PostgreSQL that frazil made: sql_catalog.py --uri URI --warehouse URL --table NAMESPACE.NAME --makes NAME

It loads the table, appends three rows to it through the catalog and reads them, makes another one of the same columns beside it, and lists
both.
"""

import argparse

import pyarrow
from pyiceberg.catalog.sql import SqlCatalog


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("uri", "warehouse", "table", "makes"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    catalog = SqlCatalog("frazil", uri=args.uri, warehouse=args.warehouse)
    namespace, name = args.table.split(".")
    assert (namespace,) in catalog.list_namespaces(), catalog.list_namespaces()
    table = catalog.load_table(args.table)
    ids = [(field.field_id, field.name, str(field.field_type)) for field in table.schema().fields]
    assert ids == [(1, "id", "long")], ids
    column = pyarrow.field("id", pyarrow.int64(), nullable=False)
    table.append(pyarrow.table({"id": [1, 2, 3]}, schema=pyarrow.schema([column])))
    rows = sorted(catalog.load_table(args.table).scan().to_arrow()["id"].to_pylist())
    assert rows == [1, 2, 3], rows
    catalog.create_table((namespace, args.makes), schema=table.schema())
    listed = sorted(catalog.list_tables(namespace))
    assert listed == sorted([(namespace, name), (namespace, args.makes)]), listed
    print(f"PyIceberg reads {len(rows)} rows of {args.table} and lists {len(listed)} tables")


if __name__ == "__main__":
    main()
