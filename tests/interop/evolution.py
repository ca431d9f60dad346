"""A schema that changes under a table: fields renamed, added, widened and left out, in Protobuf, Avro and JSON.

evolution.py --frazil BINARY --work DIR

Each version is staged by the process that has its schema; some of it is folded before the next version comes, some with it. What the
table must hold then is worked out here, and read by PyIceberg and DuckDB.
"""

import argparse
import base64
import json
import pathlib
import subprocess
import sys

TABLE = """\
[source]
topics = ["orders"]
name = "laptop"

[value]
format = "{format}"
framing = "bare"
{schema}

[table]
name = "db.orders"
mode = "append"
"""

PROTO = """\
syntax = "proto3";
message Order {{ {fields} }}
"""


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def protobuf(fields: dict) -> bytes:
    """A message of strings and whole numbers, by field number."""
    out = b""
    for number, value in fields.items():
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            out += varint(number << 3 | 2) + varint(len(value.encode())) + value.encode()
    return out


def long(number: int) -> bytes:
    return varint(number << 1 if number >= 0 else (-number << 1) - 1)


def avro(*values) -> bytes:
    """A record's fields: whole numbers, texts, lists of texts, and `None` or a value in a list of one for a union of null and it."""
    out = b""
    for value in values:
        match value:
            case int():
                out += long(value)
            case str():
                out += long(len(value.encode())) + value.encode()
            case [None]:
                out += long(0)
            case [int(inside)]:
                out += long(1) + long(inside)
            case tuple():
                out += long(len(value)) + avro(*value) + long(0)
    return out


class Place:
    """A project, and where its topic's only partition stands."""

    def __init__(self, binary: pathlib.Path, folder: pathlib.Path, name: str):
        self.binary, self.folder, self.offset = binary, folder / name, 0
        (self.folder / "pipelines").mkdir(parents=True)

    def __call__(self, *arguments: str) -> dict:
        command = [str(self.binary), *map(str, arguments), "--json"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, check=False, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def version(self, format_: str, schema: str, files: dict) -> None:
        for name, text in files.items():
            (self.folder / name).write_text(text)
        (self.folder / "pipelines/orders.toml").write_text(TABLE.format(format=format_, schema=schema))

    def stage(self, values: list) -> None:
        records = []
        for value in values:
            records.append({"topic": "orders", "partition": 0, "offset": self.offset, "timestamp": 1_790_000_000_000 + self.offset,
                            "timestampType": "CREATE_TIME", "key": None, "headers": [], "value": base64.b64encode(value).decode()})
            self.offset += 1
        event = self.folder / "event.json"
        event.write_text(json.dumps({"eventSource": "SelfManagedKafka", "bootstrapServers": "b:1", "records": {"orders-0": records}}))
        answer = self("ingest", "--event", "event.json")
        if answer.get("dead_letters"):
            raise SystemExit(f"dead letters: {answer}")

    def same(self, columns: list, wanted: list) -> None:
        """The table has these columns beside those of records, and these rows by offset."""
        for engine in ("pyiceberg", "duckdb"):
            command = [sys.executable, str(pathlib.Path(__file__).parent / "read_table.py"), "--dir", str(self.folder / ".frazil"),
                       "--table", "db.orders", "--engine", engine, "--rows"]
            done = subprocess.run(command, capture_output=True, check=False, text=True)
            if done.returncode != 0:
                raise SystemExit(f"{engine}: {done.stdout}{done.stderr}")
            read = sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda row: row["_kafka_offset"])
            found = sorted(name for name in read[0] if not name.startswith(("_kafka", "_ingested")))
            if found != sorted(columns):
                raise SystemExit(f"{self.folder.name}, {engine}: columns {found}, not {columns}")
            rows = [tuple(row[name] for name in columns) for row in read]
            if rows != wanted:
                raise SystemExit(f"{self.folder.name}, {engine}: {rows}, not {wanted}")
        print(f"  {self.folder.name}: {len(wanted)} rows of {', '.join(columns)}, the same in PyIceberg and DuckDB")


def of_protobuf(binary: pathlib.Path, folder: pathlib.Path) -> None:
    place = Place(binary, folder, "protobuf")
    schema = 'schema = { proto = "order.proto", message = "Order" }'
    version = lambda fields: place.version("protobuf", schema, {"order.proto": PROTO.format(fields=fields)})
    version("string sku = 1; int32 qty = 2; string gone = 3;")
    place.stage([protobuf({1: "a", 2: 1, 3: "x"}), protobuf({1: "b", 2: 2, 3: "y"})])
    place("fold")
    place.stage([protobuf({1: "c", 2: 3})])
    # Renamed by its number, widened, one left out and one new; what was staged before is folded with it.
    version("string article = 1; int64 qty = 2; optional string note = 4;")
    plan = place("plan")
    if sorted(change["change"] for change in plan["changes"]) != ["add_column", "leave_column_away", "promote_column"]:
        raise SystemExit(f"plan: {plan['changes']}")
    place.stage([protobuf({1: "d", 2: 1 << 40, 4: "n"})])
    answer = place("fold")
    if sorted(answer["tables"][0]["column_changes"]) != ["note string is added", "qty becomes long, and was int"]:
        raise SystemExit(f"fold: {answer}")
    place.same(["sku", "qty", "gone", "note"],
               [("a", 1, "x", None), ("b", 2, "y", None), ("c", 3, "", None), ("d", 1 << 40, None, "n")])


def of_avro(binary: pathlib.Path, folder: pathlib.Path) -> None:
    place = Place(binary, folder, "avro")

    def version(*fields: dict) -> None:
        schema = {"type": "record", "name": "Order", "fields": list(fields)}
        place.version("avro", 'schema = { avsc = "order.avsc" }', {"order.avsc": json.dumps(schema)})

    version({"name": "sku", "type": "string"}, {"name": "qty", "type": "int"})
    place.stage([avro("a", 1)])
    place("fold")
    place.stage([avro("b", 2)])
    version({"name": "article", "aliases": ["sku"], "type": "string"}, {"name": "qty", "type": ["null", "long"]},
            {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []})
    place.stage([avro("c", [None], ("x", "y"))])
    place("fold")
    # The alias is dropped: the table remembers the new name.
    version({"name": "article", "type": "string"}, {"name": "qty", "type": ["null", "long"]})
    place.stage([avro("d", [1 << 40])])
    place("fold")
    place.same(["sku", "qty", "tags"], [("a", 1, None), ("b", 2, None), ("c", None, ["x", "y"]), ("d", 1 << 40, None)])


def of_json(binary: pathlib.Path, folder: pathlib.Path) -> None:
    place = Place(binary, folder, "json")

    def version(properties: dict) -> None:
        schema = {"type": "object", "properties": properties}
        place.version("json", 'schema = { json_schema = "order.json" }', {"order.json": json.dumps(schema)})

    line = {"type": "object", "properties": {"n": {"type": "integer"}}}
    version({"sku": {"type": "string"}, "line": line})
    place.stage([b'{"sku": "a", "line": {"n": 1}}'])
    place("fold")
    wider = {"type": "object", "properties": {"n": {"type": "integer"}, "tax": {"type": "number"}}}
    version({"sku": {"type": "string"}, "line": wider, "day": {"type": "string", "format": "date"}})
    place.stage([b'{"sku": "b", "line": {"n": 2, "tax": 0.5}, "day": "2026-01-31"}'])
    place("fold")
    # Dates are read as days since 1970.
    place.same(["sku", "line", "day"], [("a", {"n": 1, "tax": None}, None), ("b", {"n": 2, "tax": 0.5}, 20484)])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--frazil", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    for case in (of_protobuf, of_avro, of_json):
        case(arguments.frazil.resolve(), arguments.work)


if __name__ == "__main__":
    main()
