"""The .proto files that frazil holds itself, beside Google's and Confluent's own. bundled_protos.py --work DIR

Every message, field, number, type, label, oneof and enum value must be the same; comments and options aside. A field that
only theirs have is one that was added since: it is said, and no fault.
"""

import argparse
import importlib
import pathlib
import subprocess
import sys

from google.protobuf import descriptor_pb2

ROOT = pathlib.Path(__file__).parent.parent.parent.parent
OURS = ROOT / "shared/codec/proto"


def theirs(name: str) -> descriptor_pb2.FileDescriptorProto:
    module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
    if module.startswith("confluent."):
        module = f"confluent_kafka.schema_registry.{module}"
    file = descriptor_pb2.FileDescriptorProto()
    importlib.import_module(module).DESCRIPTOR.CopyToProto(file)
    return file


def parts(file: descriptor_pb2.FileDescriptorProto) -> set[tuple]:
    found = {("package", file.package), ("syntax", file.syntax)}

    def field(kind: str, owner: str, held, oneofs) -> tuple:
        oneof = oneofs[held.oneof_index].name if held.HasField("oneof_index") else ""
        return (kind, owner, held.name, held.number, held.type, held.label, held.type_name, held.extendee, oneof)

    def message(owner: str, held) -> None:
        name = f"{owner}.{held.name}"
        found.add(("message", name))
        found.update(field("field", name, each, held.oneof_decl) for each in held.field)
        for inner in held.nested_type:
            message(name, inner)
        for inner in held.enum_type:
            enum(name, inner)

    def enum(owner: str, held) -> None:
        found.update(("value", f"{owner}.{held.name}", value.name, value.number) for value in held.value)

    for held in file.message_type:
        message(file.package, held)
    for held in file.enum_type:
        enum(file.package, held)
    found.update(field("extension", file.package, each, []) for each in file.extension)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=pathlib.Path, required=True)
    work = parser.parse_args().work
    work.mkdir(parents=True, exist_ok=True)
    names = sorted(str(file.relative_to(OURS)) for file in OURS.rglob("*.proto"))
    descriptors = work / "ours.desc"
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I", OURS, "-o", descriptors, *names], check=True)
    ours = {file.name: file for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes()).file}
    wrong = 0
    for name in names:
        mine, other = parts(ours[name]), parts(theirs(name))
        for part in sorted(mine - other, key=str):
            wrong += 1
            print(f"{name}: only ours has {part}", file=sys.stderr)
        for part in sorted(other - mine, key=str):
            print(f"{name}: only theirs has {part}", file=sys.stderr)
    print(f"{len(names)} files held beside Google's and Confluent's, {wrong} differences")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
