"""Records of `frazil produce`, in every format and framing, through a broker to other people's deserializers.

kafka_produce.py --frazil BINARY --work DIR --bootstrap HOST:PORT --jars DIR --glue-jars DIR --glue-endpoint URL

Run by the Python of framing/requirements.txt. Schemas are registered by frazil: in a service here that speaks Confluent's interface,
in one that speaks Glue's, in a folder. Confluent's deserializers, fastavro, protobuf's Python library and AWS's deserializer
must find the records that the same seed makes as plain JSON; and frazil reads its own. What topics tell of themselves, and keys that
Confluent's serializer wrote, are read back too.
"""

import argparse
import base64
import http.server
import importlib
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import threading
import tomllib
import uuid

import fastavro
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import (SchemaRegistryClient, dual_schema_id_deserializer,
                                              header_schema_id_serializer)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2
from google.protobuf.json_format import MessageToDict

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
RECORDS = 200
FORMATS = ("protobuf", "avro", "json")

LINE = 'syntax = "proto3"; package shop.parts; message Line { string sku = 1; int64 qty = 2; }'
ORDER = """syntax = "proto3"; package shop; import "parts/line.proto";
message Other { int32 n = 1; }
message Order { int64 id = 1; map<string, int32> marks = 2; Inner inner = 3; message Inner { repeated parts.Line lines = 1; } }"""

PIPELINE = """\
[source]
topics = ["orders"]
name = "laptop"
[value]
format = "protobuf"
framing = "confluent"
schema = { proto = "order.proto", message = "shop.Order" }
[table]
name = "db.orders"
"""


# What one library's types and another's JSON disagree about.
ODD = {"type": "record", "name": "Odd", "namespace": "shop", "fields": [
    {"name": "id", "type": {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}},
    {"name": "again", "type": ["null", "Id"], "default": None},
    {"name": "n", "type": ["double", "long"]},
    {"name": "t", "type": ["string", "bytes"]},
    {"name": "inner", "type": {"type": "record", "name": "Inner", "fields": [{"name": "raw", "type": "bytes"}]}, "default": {"raw": "\u00ff"}}]}


class Registry:
    """What speaks Confluent's interface: schemas are told apart by text and by what they refer to. Clients that take protobuf apart
    ask for it compiled (`format=serialized`)."""

    def __init__(self, work: pathlib.Path):
        self.schemas, self.subjects, self.work = [], {}, work
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self, status, body):
                body = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def missing(self):
                self.answer(404, {"error_code": 40403, "message": "Schema not found"})

            def do_GET(self):
                parts = self.path.split("?")[0].strip("/").split("/")
                compiled = "format=serialized" in self.path
                if parts[:2] == ["schemas", "ids"] and int(parts[2]) <= len(registry.schemas):
                    return self.answer(200, registry.text(int(parts[2]), compiled))
                if parts[:2] == ["schemas", "guids"]:
                    known = [n for n in range(1, len(registry.schemas) + 1) if registry.guid(n) == parts[2]]
                    return self.answer(200, registry.text(known[0], compiled)) if known else self.missing()
                if parts[0] == "subjects" and len(parts) == 4:
                    subject, version = parts[1].replace("%2F", "/").replace("%2f", "/"), parts[3]
                    ids = registry.subjects.get(subject, [])
                    number = len(ids) if version in ("latest", "-1") else int(version)
                    if 0 < number <= len(ids):
                        return self.answer(200, registry.placed(subject, ids[number - 1], compiled))
                return self.missing()

            def do_POST(self):
                parts = self.path.split("?")[0].strip("/").split("/")
                subject = parts[1].replace("%2F", "/")
                schema = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                ids = registry.subjects.setdefault(subject, [])
                if parts[2:] == ["versions"]:
                    if schema not in registry.schemas:
                        registry.schemas.append(schema)
                    number = registry.schemas.index(schema) + 1
                    if number not in ids:
                        ids.append(number)
                    return self.answer(200, {"id": number, "guid": registry.guid(number)})
                if schema in registry.schemas and registry.schemas.index(schema) + 1 in ids:
                    return self.answer(200, registry.placed(subject, registry.schemas.index(schema) + 1))
                return self.missing()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def placed(self, subject, number, compiled=False):
        version = self.subjects[subject].index(number) + 1
        return {"subject": subject, "version": version, "id": number, "guid": self.guid(number), **self.text(number, compiled)}

    def guid(self, number):
        return str(uuid.UUID(int=number))

    def text(self, number, compiled):
        schema = self.schemas[number - 1]
        if not compiled or schema.get("schemaType") != "PROTOBUF":
            return schema
        folder = self.work / f"schema-{number}"
        self.write(schema, folder, "registered.proto")
        command = [sys.executable, "-m", "grpc_tools.protoc", "-I", folder, "-o", folder / "out.desc", "registered.proto"]
        subprocess.run(command, check=True)
        file = descriptor_pb2.FileDescriptorSet.FromString((folder / "out.desc").read_bytes()).file[0]
        return {**schema, "schema": base64.b64encode(file.SerializeToString()).decode()}

    def write(self, schema, folder, name):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(schema["schema"])
        for reference in schema.get("references", []):
            number = self.subjects[reference["subject"]][reference["version"] - 1]
            self.write(self.schemas[number - 1], folder, reference["name"])


class Test:
    def __init__(self, args):
        self.args = args
        self.folder = args.work
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "pipelines").mkdir(parents=True)
        self.registry = Registry(self.folder / "registered")
        (self.folder / "frazil.toml").write_text(
            f'[env.local]\ndir = ".frazil"\nkafka = {{ bootstrap_servers = "{args.bootstrap}" }}\n'
            f'registries.sr = {{ kind = "confluent", url = "{self.registry.url}" }}\n'
            'registries.glue = { kind = "glue", registry_name = "frazil-produce" }\n'
            'registries.disk = { kind = "files", dir = "registry" }\n')
        (self.folder / "pipelines/orders.toml").write_text(PIPELINE)
        (self.folder / "parts").mkdir()
        (self.folder / "order.proto").write_text(ORDER)
        (self.folder / "parts/line.proto").write_text(LINE)
        command = [sys.executable, "-m", "grpc_tools.protoc", "-I", ROOT / "proto", "-I", self.folder, f"--python_out={self.folder}",
                   "employee.proto", "order.proto", "parts/line.proto"]
        subprocess.run(command, check=True)
        sys.path.insert(0, str(self.folder))
        self.employee = importlib.import_module("employee_pb2")
        self.order = importlib.import_module("order_pb2")

    def frazil(self, *arguments, given: str = "") -> dict:
        command = [str(self.args.frazil), *map(str, arguments), "--json"]
        done = subprocess.run(command, cwd=self.folder, input=given, capture_output=True, check=False, text=True)
        if done.returncode != 0:
            raise SystemExit(f"frazil {arguments}: {done.returncode} {done.stdout}{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])

    def refused(self, *arguments, given: str = "") -> tuple:
        """Exit code, and the failure's code."""
        command = [str(self.args.frazil), *map(str, arguments), "--json"]
        done = subprocess.run(command, cwd=self.folder, input=given, capture_output=True, check=False, text=True)
        return done.returncode, json.loads(done.stdout.splitlines()[-1]).get("error", {}).get("code")

    def topic(self, name: str) -> None:
        command = ["java", "-Xmx128m", "-cp", f"{self.args.jars}/*", "org.apache.kafka.tools.TopicCommand", "--bootstrap-server",
                   self.args.bootstrap, "--create", "--topic", name, "--partitions", "1", "--replication-factor", "1"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def read(self, topic: str) -> list:
        """Key, value and headers of each record."""
        consumer = Consumer({"bootstrap.servers": self.args.bootstrap, "group.id": "judge", "enable.auto.commit": False,
                             "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while True:
            message = consumer.poll(20)
            if message is None:
                raise SystemExit(f"{topic}: the judge's consumer got nothing")
            if message.error():
                break
            found.append((message.key(), message.value(), message.headers() or []))
        consumer.close()
        return found

    def produced(self, kind: str, framing: str, *arguments) -> list:
        topic = f"{kind}-{framing}"
        self.topic(topic)
        answer = self.frazil("produce", "--topic", topic, "--format", kind, "--framing", framing, "--records", RECORDS, "--seed", 7,
                             "--keys", "id", *arguments)
        found = self.read(topic)
        if answer["sent"] != len(found):
            raise SystemExit(f"{topic}: {answer['sent']} sent, {len(found)} read")
        return found


def plain(record: dict) -> tuple:
    """What of an employee is the same in every run: all but the time."""
    team = record["team"]
    return (record["id"], record["name"], record["address"], record["employee_age"], team["name"], team["location"], record["role"])


def of_message(message) -> dict:
    record = MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    return {**record, "role": type(message).DESCRIPTOR.fields_by_name["role"].enum_type.values_by_number[message.role].name,
            "employee_age": message.employee_age.value}


def same(what: str, found: list, truth: list) -> None:
    if found != truth:
        different = next((pair for pair in zip(found, truth) if pair[0] != pair[1]), (len(found), len(truth)))
        raise SystemExit(f"{what}: {different[0]} instead of {different[1]}")
    print(f"{what}: {len(found)}")


def confluent(test: Test, truth: list) -> None:
    client = SchemaRegistryClient({"url": test.registry.url})
    both = {"schema.id.deserializer": dual_schema_id_deserializer}
    schema = (ROOT / "proto/employee.json").read_text()
    readers = {
        "protobuf": (ProtobufDeserializer(test.employee.Employee, {"use.deprecated.format": False, **both}, client), of_message),
        "avro": (AvroDeserializer(client, conf=both), dict),
        "json": (JSONDeserializer(schema, schema_registry_client=client, conf=both), dict),
    }
    for framing in ("confluent", "confluent-header"):
        for kind in FORMATS:
            read, make = readers[kind]
            found = test.produced(kind, framing, "--register", "--registry", "sr")
            records = [make(read(value, SerializationContext(f"{kind}-{framing}", MessageField.VALUE, headers)))
                       for _, value, headers in found]
            same(f"{kind} in {framing} framing by Confluent's deserializer", [plain(r) for r in records], truth)
            same("  their keys", [key for key, *_ in found], [str(r["id"]).encode() for r in records])


def alone(test: Test, truth: list) -> None:
    values = [value for _, value, _ in test.produced("protobuf", "bare")]
    same("bare protobuf by its own library", [plain(of_message(test.employee.Employee.FromString(v))) for v in values], truth)
    schema = fastavro.parse_schema(json.loads((ROOT / "proto/employee.avsc").read_text()))
    read = lambda value: fastavro.schemaless_reader(io.BytesIO(value), schema)
    values = [value for _, value, _ in test.produced("avro", "bare")]
    same("bare Avro by fastavro", [plain(read(value)) for value in values], truth)
    values = [value for _, value, _ in test.produced("avro", "avro-single-object")]
    crc = fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(schema), "CRC-64-AVRO")
    same("fingerprints of single objects by fastavro", [v[:10] for v in values], [b"\xc3\x01" + bytes.fromhex(crc)] * len(values))
    same("single objects by fastavro", [plain(read(value[10:])) for value in values], truth)


def glue(test: Test, truth: list) -> None:
    classpath = f"{test.args.glue_jars}/*:{test.folder}"
    subprocess.run(["javac", "-cp", classpath, "-d", test.folder, HERE / "framing/GlueReads.java"], check=True)
    for framing in ("glue", "glue-zlib"):
        for kind in FORMATS:
            values = [value for _, value, _ in test.produced(kind, framing, "--register", "--registry", "glue")]
            same(f"versions and compressions of {kind} in {framing} framing", [v[:2] for v in values],
                 [b"\x03\x05" if framing == "glue-zlib" else b"\x03\x00"] * len(values))
            java = ["java", "-cp", classpath, "GlueReads", test.args.glue_endpoint]
            given = "".join(f"{value.hex()}\n" for value in values)
            done = subprocess.run(java, input=given, capture_output=True, check=False, text=True)
            if done.returncode != 0:
                raise SystemExit(f"GlueReads: {done.stderr}")
            found = [tuple(line.split("\t")) for line in done.stdout.splitlines()]
            same(f"{kind} in {framing} framing by AWS's deserializer", found, [(str(r[0]), r[1], r[6]) for r in truth])


def given(test: Test) -> None:
    """People's own values: a message of a file with imports, and what frazil makes of its own records."""
    test.topic("orders")
    orders = [{"id": str(n), "marks": {"a": n}, "inner": {"lines": [{"sku": f"s{n}", "qty": str(n * (1 << 40))}]}} for n in range(1, 50)]
    lines = "".join(json.dumps(order) + "\n" for order in orders)
    answer = test.frazil("produce", "--values", "-", "--register", "--registry", "sr", "--keys", "inner", given="")
    same("no values, no records", [answer["sent"]], [0])
    test.frazil("produce", "orders", "--values", "-", "--registry", "sr", "--keys", "id", given=lines)
    client = SchemaRegistryClient({"url": test.registry.url})
    read = ProtobufDeserializer(test.order.Order, {"use.deprecated.format": False}, client)
    found = test.read("orders")
    messages = [MessageToDict(read(value, SerializationContext("orders", MessageField.VALUE))) for _, value, _ in found]
    same("messages of a file with imports by Confluent's deserializer", messages, orders)
    same("  their message's path", [value[5:7] for _, value, _ in found], [struct.pack("bb", 2, 2)] * len(orders))
    test.frazil("run", "orders", "--idle-seconds", 3)
    rows = test.frazil("query", "SELECT id, inner['lines'][1]['qty'] AS qty FROM db.orders ORDER BY id")["rows"]
    same("the same in frazil's table", [(row["id"], row["qty"]) for row in rows], [(n, n * (1 << 40)) for n in range(1, 50)])


def versions(test: Test) -> None:
    """The same text with another import is another version, and another topic has a subject of its own."""
    value = '{"id": "1"}'
    produce = lambda topic: test.frazil("produce", "orders", "--topic", topic, "--values", "-", "--register", "--registry", "sr", given=value)
    first = produce("orders")
    same("a schema that is there", [first["registered"]], [False])
    (test.folder / "parts/line.proto").write_text(LINE.replace("}", "int32 more = 3; }"))
    changed = produce("orders")
    same("one with another import", [(changed["registered"], changed["schema_id"] == first["schema_id"])], [(True, False)])
    test.topic("orders-2")
    other = produce("orders-2")
    same("another topic's", [(other["registered"], other["schema_id"])], [(True, changed["schema_id"])])
    same("  under its own name", test.registry.subjects["orders-2-value"], [int(changed["schema_id"])])
    nowhere = test.refused("produce", "orders", "--topic", "nowhere", "--values", "-", "--register", "--registry", "sr", given=value)
    same("no topic, no schema", [(nowhere, test.registry.subjects.get("nowhere-value") or [])], [((2, "kafka.no_topic"), [])])


def odd(test: Test) -> None:
    """UUIDs of sixteen bytes, unions, and defaults inside records, by fastavro."""
    (test.folder / "odd.avsc").write_text(json.dumps(ODD))
    (test.folder / "pipelines/odd.toml").write_text(
        PIPELINE.replace("orders", "odd").replace('"protobuf"', '"avro"').replace('{ proto = "order.proto", message = "shop.Order" }',
                                                                                 '{ avsc = "odd.avsc" }'))
    test.topic("odd")
    first = uuid.UUID(int=7)
    values = [{"id": str(first), "again": str(first), "n": 3, "t": "hello"}, {"id": str(first), "n": 3.0, "t": {"bytes": "AAEC"}}]
    test.frazil("produce", "odd", "--values", "-", "--register", "--registry", "sr", "--keys", "n",
                given="".join(json.dumps(value) + "\n" for value in values))
    schema = fastavro.parse_schema(ODD)
    raw = lambda found: found.bytes if isinstance(found, uuid.UUID) else found
    found = [(key, fastavro.schemaless_reader(io.BytesIO(value[5:]), schema)) for key, value, _ in test.read("odd")]
    found = [(key, raw(r["id"]), raw(r["again"]), repr(r["n"]), r["t"], r["inner"]["raw"]) for key, r in found]
    same("odd types by fastavro", found, [(b"3", first.bytes, first.bytes, "3", "hello", b"\xff"),
                                          (b"3.0", first.bytes, None, "3.0", b"\x00\x01\x02", b"\xff")])
    unclear = json.dumps({**values[0], "t": "AAEC"})
    same("what may be several types is refused", [test.refused("produce", "odd", "--values", "-", "--registry", "sr", given=unclear)],
         [(2, "produce.value")])


def told(test: Test) -> None:
    """What topics tell of themselves: `frazil init --from-topic` finds framing, format and schema of what was sent above."""
    for topic, registry, expected in [
        ("json-bare", "sr", ("json", "bare", None)),
        ("protobuf-confluent", "sr", ("protobuf", "confluent", "protobuf-confluent-value")),
        ("avro-confluent-header", "sr", ("avro", "confluent", "avro-confluent-header-value")),
        ("json-glue-zlib", "glue", ("json", "glue", "json-glue-zlib")),
        ("protobuf-glue", "glue", ("protobuf", "glue", "protobuf-glue")),
    ]:
        flags = ["--message", "gsr.proto.post.Employee"] if expected[0] == "protobuf" else []
        answer = test.frazil("init", "--topic", topic, "--from-topic", "--registry", registry, *flags)
        value = tomllib.loads((test.folder / answer["files"][0]).read_text())["value"]
        same(f"{topic} as it tells of itself", [(value["format"], value["framing"], value.get("schema", {}).get("name"))], [expected])
        same("  faults of its pipeline", test.frazil("check", answer["pipeline"])["faults"], [])
        rows = test.frazil("tail", answer["pipeline"], "--from", "earliest", "--records", "1")["rows"]
        same("  the address of its first record", [rows[0]["address"]], ["Melbourne, Australia"])
    command = [str(test.args.frazil), "init", "--topic", "avro-bare", "--from-topic", "--json"]
    done = subprocess.run(command, cwd=test.folder, capture_output=True, check=False, text=True)
    same("bare Avro tells nothing", [(done.returncode, json.loads(done.stdout)["error"]["code"])], [(2, "init.topic")])


KEYED = """\
[source]
topics = ["keyed"]
name = "laptop"
[key]
format = "avro"
framing = "confluent"
schema = { registry = "sr", name = "keyed-key" }
[value]
format = "json"
framing = "bare"
[table]
name = "db.keyed"
[table.columns]
n = { type = "long" }
id = "@key.id"
region = { from = "@key.region", required = true }
"""


def keys(test: Test) -> None:
    """Keys by Confluent's serializer, before the key and in a header, read like values."""
    test.topic("keyed")
    schema = {"type": "record", "name": "K", "fields": [{"name": "id", "type": "long"}, {"name": "region", "type": "string"}]}
    client = SchemaRegistryClient({"url": test.registry.url})
    write = [AvroSerializer(client, json.dumps(schema), conf=conf)
             for conf in ({}, {"schema.id.serializer": header_schema_id_serializer})]
    producer = Producer({"bootstrap.servers": test.args.bootstrap})
    for n in range(40):
        headers = []
        key = write[n % 2]({"id": n << 40, "region": f"r{n}"}, SerializationContext("keyed", MessageField.KEY, headers))
        producer.produce("keyed", json.dumps({"n": n}), key, headers=headers)
    producer.produce("keyed", json.dumps({"n": 99}), b"bare")
    producer.flush()
    (test.folder / "pipelines/keyed.toml").write_text(KEYED)
    test.frazil("run", "keyed", "--idle-seconds", 3)
    rows = test.frazil("query", "SELECT n, id, region FROM db.keyed ORDER BY n")["rows"]
    same("keys by Confluent's serializer in frazil's table", [(row["n"], row["id"], row["region"]) for row in rows],
         [(n, n << 40, f"r{n}") for n in range(40)])
    letters = [json.loads(line) for path in (test.folder / ".frazil/dead-letters").rglob("*.jsonl")
               for line in path.read_text().splitlines()]
    same("  and a key without framing in dead letters", [(letter["part"], letter["class"]) for letter in letters], [("key", "bad_framing")])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--frazil", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--jars", type=pathlib.Path, required=True)
    parser.add_argument("--glue-jars", type=pathlib.Path, required=True)
    parser.add_argument("--glue-endpoint", required=True)
    args = parser.parse_args()
    os.environ |= {"AWS_ENDPOINT_URL": args.glue_endpoint, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test",
                   "AWS_SECRET_ACCESS_KEY": "test", "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    test = Test(args)
    truth = [plain(json.loads(value)) for _, value, _ in test.produced("json", "bare")]
    if len(truth) < RECORDS or len(set(truth)) != RECORDS:
        raise SystemExit(f"{len(truth)} records of {len(set(truth))} employees")
    alone(test, truth)
    confluent(test, truth)
    given(test)
    versions(test)
    odd(test)
    glue(test, truth)
    told(test)
    keys(test)


if __name__ == "__main__":
    main()
