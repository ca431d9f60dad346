"""Employee records made by protobuf's own Python library, and what a table must hold of them.

employee_producer.py --proto FILE --records N --partitions P --seed S --out DIR

DIR/records.jsonl: one record a line, to be sent in this order (send_kcat.py):
    {"partition", "key": base64 | null, "headers": [[name, base64], ...], "value": base64 | null}
DIR/truth.jsonl: the same records, as they must end: {"partition", "offset", "fate", "row"}.
    fate "row" with the row; "filtered" for a null value; "dead" for bytes that protobuf's library refuses too.
    row: {employee_id, name, address, age, start_date: microseconds since the epoch, team, location, role}, null where absent.

Rows of the truth are what the library reads back from the bytes, so a record made in a crooked way (fields twice, out of
order, unknown) is judged by it and not by us. Offsets count up from 0 in each partition of a topic that was empty.
"""

import argparse
import base64
import importlib.resources
import json
import pathlib
import random
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
from grpc_tools import protoc


def message_class(proto: pathlib.Path, name: str):
    """The message's class, compiled from its .proto by protoc itself."""
    bundled = importlib.resources.files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "set"
        arguments = ["protoc", f"-I{proto.parent}", f"-I{bundled}", "--include_imports", f"--descriptor_set_out={out}", proto.name]
        if protoc.main(arguments) != 0:
            raise SystemExit(f"protoc refuses {proto}")
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def ordinary(employee, chance: random.Random, at_ms: int):
    e = employee(
        id=chance.randrange(100_000),
        name=f"Dummy{chance.randrange(100)}",
        address="Melbourne, Australia",
        role=chance.randrange(3),
    )
    e.employee_age.value = chance.randrange(99)
    e.start_date.FromMilliseconds(at_ms)
    e.team.name = chance.choice(["Solutions Architects", "Support", "Données"])
    e.team.location = "Australia"
    return e


def unusual(employee, chance: random.Random, at_ms: int) -> list[bytes]:
    """Payloads that are legal and rare."""

    def changed(**fields) -> bytes:
        e = ordinary(employee, chance, at_ms)
        for name, value in fields.items():
            setattr(e, name, value)
        return e.SerializeToString()

    def cleared(*names) -> bytes:
        e = ordinary(employee, chance, at_ms)
        for name in names:
            e.ClearField(name)
        return e.SerializeToString()

    def started(seconds: int, nanos: int) -> bytes:
        e = ordinary(employee, chance, at_ms)
        e.start_date.seconds, e.start_date.nanos = seconds, nanos
        return e.SerializeToString()

    a, b = (ordinary(employee, chance, at_ms) for _ in range(2))
    empty_team = ordinary(employee, chance, at_ms)
    empty_team.team.Clear()
    empty_team.team.SetInParent()
    zero_age = ordinary(employee, chance, at_ms)
    zero_age.employee_age.value = 0
    return [
        b"",  # a message of defaults: under bare framing a row, not a tombstone
        changed(id=-(2**31)),
        changed(id=2**31 - 1),
        changed(id=0),
        changed(name="Zoë 冰晶 \U0001f9ca", address=""),
        changed(name="x" * 20_000),
        changed(name="nul\x00, quote \" and\nnewline"),
        changed(role=7),  # proto3 enums are open
        changed(role=-1),
        cleared("employee_age"),
        cleared("start_date"),
        cleared("team"),
        cleared("employee_age", "start_date", "team"),
        zero_age.SerializeToString(),
        empty_team.SerializeToString(),
        started(0, 0),
        started(-86_401, 999_998_000),  # one day and 2 microseconds before 1970
        started(-1, 999_999_999),  # floors to -1 microsecond
        started(253_402_300_799, 999_999_999),
        started(-62_135_596_800, 0),
        a.SerializeToString() + b.SerializeToString(),  # scalars: the last wins; messages: merged
        a.SerializeToString() + b"\xa2\x06\x03abc",  # unknown field 100, of bytes
        b.SerializeToString() + b"\xa8\x06\x96\x01",  # unknown field 101, a varint
    ]


def broken(employee, chance: random.Random, at_ms: int) -> list[bytes]:
    """Payloads that no reader may turn into a row."""
    whole = ordinary(employee, chance, at_ms).SerializeToString()
    return [
        whole[:-1],
        b"\x12\xff\xff\xff\xff\x07" + whole,  # a length far past the end
        b"\x08" + b"\xff" * 11,  # a varint that does not end
        b"\x12\x02\xff\xfe" + whole,  # a string that is not UTF-8
        b"\x00",  # field number 0
        whole + b"\x0f",  # wire type 7
    ]


def row(employee, payload: bytes) -> dict | None:
    try:
        e = employee.FromString(payload)
    except message.DecodeError:
        return None
    role = employee.DESCRIPTOR.fields_by_name["role"].enum_type.values_by_number.get(e.role)
    return {
        "employee_id": e.id,
        "name": e.name,
        "address": e.address,
        "age": e.employee_age.value if e.HasField("employee_age") else None,
        "start_date": e.start_date.seconds * 1_000_000 + e.start_date.nanos // 1000 if e.HasField("start_date") else None,
        "team": e.team.name if e.HasField("team") else None,
        "location": e.team.location if e.HasField("team") else None,
        "role": role.name if role else str(e.role),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--proto", type=pathlib.Path, required=True)
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    employee = message_class(args.proto.resolve(), "gsr.proto.post.Employee")
    chance = random.Random(args.seed)
    start_ms = 1_793_607_600_000  # 2026-11-02T08:20:00Z
    special = [*unusual(employee, chance, start_ms), *broken(employee, chance, start_ms), None]
    # The rare payloads stand among ordinary ones, each once, at places drawn from the seed.
    count = max(args.records, len(special))
    places = dict(zip(chance.sample(range(count), len(special)), special))
    # Headers in stretches: kcat sends one set of headers a run. One holds bytes above 127, one a name twice.
    headers = [[], [["trace", b"\x01\x7f\x80\xff"]], [["type", b"hire"], ["type", b"again"], ["empty", b""]]]
    keys = [None, b"", b"k-1", "clé".encode(), b"\x80\xff\x00\x01"]
    offsets = [0] * args.partitions

    def text(data: bytes | None) -> str | None:
        return None if data is None else base64.b64encode(data).decode()

    with open(args.out / "records.jsonl", "w") as records, open(args.out / "truth.jsonl", "w") as truth:
        for i in range(count):
            if i in places:
                payload = places[i]
            else:
                payload = ordinary(employee, chance, start_ms + i * 37).SerializeToString()
            stretch = i * 12 // count
            partition = chance.randrange(args.partitions)
            # A tombstone without a key means nothing, and kcat can't send one.
            key = b"gone" if payload is None else keys[stretch % len(keys)]
            record = {
                "partition": partition,
                "key": text(key),
                "headers": [[name, text(value)] for name, value in headers[stretch % len(headers)]],
                "value": text(payload),
            }
            records.write(json.dumps(record) + "\n")
            read = None if payload is None else row(employee, payload)
            fate = "filtered" if payload is None else "dead" if read is None else "row"
            end = {"partition": partition, "offset": offsets[partition], "fate": fate, "row": read}
            truth.write(json.dumps(end) + "\n")
            offsets[partition] += 1


if __name__ == "__main__":
    main()
