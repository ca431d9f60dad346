"""One topic of every framing and of two versions of a schema, through `frazil run` into one table that other engines read.

kafka_framings.py --frazil BINARY --work DIR --bootstrap HOST:PORT --jars DIR

The values are those of tests/golden/framing, which AWS's and Confluent's own serializers wrote, bare ones between them, and those of
a later version of the schema. The registry is a folder at first; then a service that is away for a while, and nothing is lost.
"""

import argparse
import http.server
import json
import pathlib
import subprocess
import sys
import threading

from kafka_topics import Broker, Project, same

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "framing"
LINE = "shop.Order.Line"

SHOP = """\
syntax = "proto3";
package shop;
message Order { message Line { string sku = 1; int64 qty = 2; } }
"""

# A field renamed, one that is new.
LATER = """\
syntax = "proto3";
package shop;
message Order { message Line { string article = 1; int64 qty = 2; optional string note = 3; } }
"""

PIPELINE = """\
[source]
topics = ["{topic}"]
name = "laptop"

[value]
format = "protobuf"
framing = "auto"
schema = {schema}

[table]
name = "db.lines"
mode = "append"

[fold]
max_age = "2s"
"""

FILE = '{ proto = "shop.proto", message = "shop.Order.Line" }'


def golden(name: str) -> tuple[dict, list]:
    document = json.loads((GOLDEN / name).read_text())
    return document["schemas"], [value for value in document["values"] if value["format"] == "PROTOBUF"]


class Registry:
    """What speaks Confluent's interface, and answers 503 until it is told to."""

    def __init__(self, texts: dict):
        self.up, self.refused = False, 0
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                text = texts.get(self.path.removeprefix("/schemas/ids/"))
                status, body = 200, {"schemaType": "PROTOBUF", "schema": text}
                if not registry.up:
                    registry.refused += 1
                    status, body = 503, {"error_code": 50302, "message": "away"}
                elif text is None:
                    status, body = 404, {"error_code": 40403, "message": "Schema not found"}
                body = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


def project(binary: pathlib.Path, broker: Broker, folder: pathlib.Path, topic: str, registry: str) -> Project:
    made = Project(binary, broker, folder, topic)
    (folder / "pipelines" / "notes.toml").unlink()
    (folder / "pipelines" / "lines.toml").write_text(PIPELINE.format(topic=topic, schema=FILE))
    (folder / "shop.proto").write_text(SHOP)
    (folder / "frazil.toml").write_text(f'[env.local]\ndir = ".frazil"\nregistries.main = {registry}\n')
    return made


def rows(project: Project) -> dict:
    answer = project("query", "SELECT _kafka_partition AS p, _kafka_offset AS o, sku, qty FROM db.lines")["rows"]
    return {(row["p"], row["o"]): (row["sku"], row["qty"]) for row in answer}


def send(broker: Broker, topic: str, values: list) -> None:
    """Each value with its headers, in turn to two partitions."""
    producer = broker.producer()
    for number, (value, headers, _) in enumerate(values):
        producer.produce(topic, value, partition=number % 2, headers=headers)
    producer.flush()


def wanted(values: list) -> dict:
    return {(n % 2, n // 2): row for n, (*_, row) in enumerate(values) if row}


def mixed(broker: Broker, binary: pathlib.Path, folder: pathlib.Path, topic: str) -> None:
    made = project(binary, broker, folder, topic, '{ kind = "files", dir = "registry" }')
    (folder / "registry").mkdir()
    values = [(bytes.fromhex("0a02623010") + bytes([7]), [], ("b0", 7))]
    for name in ("glue.json", "confluent.json"):
        schemas, framed = golden(name)
        for id_, schema in schemas.items():
            if schema["kind"] == "PROTOBUF":
                for name_ in filter(None, (id_, schema.get("guid"))):
                    (folder / "registry" / f"{name_}.proto").write_text(schema["text"])
        for value in framed:
            headers = [("__value_schema_id", bytes.fromhex(value["header"]))] if value.get("header") else []
            row = ("k9", 3) if value["message"] == LINE else None
            values.append((bytes.fromhex(value["value"]), headers, row))
            values.append((bytes.fromhex("0a02623110") + bytes([len(values) % 100]), [], ("b1", len(values) % 100)))
    # The later version, by its path, and one that nobody registered.
    (folder / "registry" / "7.proto").write_text(LATER)
    values.append((bytes.fromhex("0000000007040000" "0a016c" "108080808080" "01" "1a016e"), [], ("l", 1 << 35)))
    values.append((bytes.fromhex("0000000008040000" "0a016d"), [], None))
    broker.topic(topic, 2)
    send(broker, topic, values)
    made.run()
    same("records of every framing in the table", rows(made), wanted(values))
    letters = sum(len(path.read_text().splitlines()) for path in (folder / ".frazil/dead-letters").rglob("*.jsonl"))
    refused = sum(not row for *_, row in values)
    same("records of other messages and unknown schemas in dead letters", range(letters), range(refused))
    for engine in ("pyiceberg", "duckdb"):
        command = [sys.executable, str(pathlib.Path(__file__).parent / "read_table.py"), "--dir", str(folder / ".frazil"),
                   "--table", "db.lines", "--engine", engine, "--columns", "_kafka_partition,_kafka_offset,sku,qty", "--rows"]
        done = subprocess.run(command, capture_output=True, check=False, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{engine}: {done.stdout}{done.stderr}")
        read = [json.loads(line) for line in done.stdout.splitlines()]
        found = {(row["_kafka_partition"], row["_kafka_offset"]): (row["sku"], row["qty"]) for row in read}
        same(f"rows as {engine} reads them", found, wanted(values))


def outage(broker: Broker, binary: pathlib.Path, folder: pathlib.Path, topic: str) -> None:
    registry = Registry({"7": LATER})
    made = project(binary, broker, folder, topic, f'{{ kind = "confluent", url = "{registry.url}" }}')
    values = [(bytes.fromhex("0000000007040000" "0a0161" "10") + bytes([n]), [], ("a", n)) for n in range(1, 101)]
    broker.topic(topic, 2)
    send(broker, topic, values)
    timer = threading.Timer(6, lambda: setattr(registry, "up", True))
    timer.start()
    # It tries again until the registry is back: what was not stored is not passed over.
    answer = made("run", "-b", broker.bootstrap, "--idle-seconds", 8)
    if not registry.refused or not answer["failed_invocations"]:
        raise SystemExit(f"the registry was never away: {answer}")
    same("records that waited for their registry in the table", rows(made), wanted(values))
    print(f"  after {answer['failed_invocations']} failed invocations")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--frazil", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--jars", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    broker = Broker(arguments.bootstrap, arguments.jars, arguments.work / "broker")
    for case in (mixed, outage):
        case(broker, arguments.frazil.resolve(), arguments.work / case.__name__, f"framed-{case.__name__}")


if __name__ == "__main__":
    main()
