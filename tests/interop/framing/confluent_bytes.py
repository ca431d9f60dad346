"""Values by Confluent's serializers for Python, with their mock of a registry, as a golden file.

confluent_bytes.py --work DIR [--write]

Without --write the values are compared with the golden file's: GUIDs are new every time, and nothing else may be. What the
mock registry returns for protobuf is what this client registers: a serialised FileDescriptorProto in base64.
"""

import argparse
import importlib
import json
import pathlib
import subprocess
import sys

import confluent_kafka
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE.parent.parent / "golden/framing/confluent.json"

AVRO = {
    "type": "record",
    "name": "Reading",
    "fields": [{"name": "name", "type": "string"}, {"name": "reading", "type": "int"}],
}
JSON = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Number", "type": "object"}


def compiled(work: pathlib.Path):
    """The Python classes of shop.proto."""
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I", HERE, f"--python_out={work}", "shop.proto"]
    subprocess.run(command, check=True)
    sys.path.insert(0, str(work))
    return importlib.import_module("shop_pb2")


def comparable(document: dict) -> list:
    numbers = {schema["guid"].replace("-", ""): number for number, schema in document["schemas"].items()}
    text = json.dumps(document["values"]).replace("-", "")
    for guid, number in numbers.items():
        text = text.replace(guid, number)
    return json.loads(text)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    shop = compiled(args.work)
    line = shop.Order.Line(sku="k9", qty=3)
    messages = [
        shop.Order(lines=[line]),
        line,
        shop.Order2(no=42),
        shop.Account(id=7),
        shop.Account.Zone.Area(n=-1),
        shop.Order(),
    ]
    client = SchemaRegistryClient.new_client({"url": "mock://golden"})
    values = []

    def say(framing: str, kind: str, subject: str, message: str, payload: bytes, make, value) -> None:
        headers = []
        settings = {"auto.register.schemas": True}
        if framing == "confluent-header":
            settings["schema.id.serializer"] = header_schema_id_serializer
        framed = make(settings)(value, SerializationContext(subject, MessageField.VALUE, headers))
        found = client.get_latest_version(f"{subject}-value")
        header = next((bytes(held) for name, held in headers if name == "__value_schema_id"), None)
        values.append(
            {
                "framing": framing,
                "format": kind,
                "schema": found.guid if header else str(found.schema_id),
                "message": message,
                "payload": payload.hex(),
                "value": bytes(framed).hex(),
                "header": header and header.hex(),
            }
        )

    for framing in ["confluent", "confluent-header"]:
        for message in messages:
            name = message.DESCRIPTOR.full_name
            make = lambda settings, message=message: ProtobufSerializer(type(message), client, settings)
            say(framing, "PROTOBUF", "shop", name, message.SerializeToString(), make, message)
        make = lambda settings: AvroSerializer(client, json.dumps(AVRO), conf=settings)
        say(framing, "AVRO", "reading", "Reading", b"\x0esensor7\x0f", make, {"name": "sensor7", "reading": -8})
        make = lambda settings: JSONSerializer(json.dumps(JSON), client, conf=settings)
        say(framing, "JSON", "number", "", b'{"n":12345678901234567890}', make, {"n": 12345678901234567890})

    schemas = {}
    for subject in ["shop-value", "reading-value", "number-value"]:
        found = client.get_latest_version(subject)
        schemas[str(found.schema_id)] = {
            "guid": found.guid,
            "kind": found.schema.schema_type or "AVRO",
            "text": found.schema.schema_str,
            "references": [
                {"name": held.name, "subject": held.subject, "version": held.version} for held in found.schema.references or []
            ],
        }
    document = {"written_by": [f"confluent-kafka {confluent_kafka.__version__}"], "schemas": schemas, "values": values}
    if args.write:
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps(document, indent=1) + "\n")
    elif comparable(document) != comparable(json.loads(GOLDEN.read_text())):
        sys.exit("the serializers write other bytes than the golden file holds")
    print(f"{len(values)} values by Confluent's serializers")


if __name__ == "__main__":
    main()
