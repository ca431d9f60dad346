"""Reads a topic from its beginning to its end with kcat and wraps what it read as Lambda's Kafka events.

wrap_event.py --bootstrap ADDR --topic T --out DIR [--records-max 10000] [--bytes-max 6291456]

DIR/event-000000.json ...: the event that AWS documents for an MSK event source mapping: `records` by "topic-partition",
each with base64 key and value (left out where null), signed header bytes, timestamp and its type. An event holds several
partitions, each in offset order, and keeps to both limits. DIR/read.jsonl: {"partition", "offset", "timestamp_ms"} of
every record, as kcat printed them.

kcat's own JSON output damages bytes that are not text, so it is asked for lengths and raw bytes instead. What it can't
say exactly: a null header value reads as the text NULL, and a header value is cut at a NUL byte and split at `,name=`.
"""

import argparse
import base64
import heapq
import json
import pathlib
import re
import secrets
import subprocess

ARN = "arn:aws:kafka:eu-west-1:123456789012:cluster/frazil-tests/00000000-0000-4000-8000-000000000000-1"


def records(output: bytes, head: bytes, tail: bytes):
    """The records in kcat's output: head, headers, tail, the numbers, a newline, key bytes, value bytes."""
    at = 0
    while at < len(output):
        if not output.startswith(head, at):
            raise SystemExit(f"kcat's output is not framed as asked at byte {at}")
        ends = output.index(tail, at)
        headers = output[at + len(head) : ends]
        newline = output.index(b"\n", ends)
        partition, offset, timestamp, key_length, value_length = map(int, output[ends + len(tail) : newline].split())
        at = newline + 1
        key, at = take(output, at, key_length)
        value, at = take(output, at, value_length)
        yield partition, offset, timestamp, key, value, headers


def take(output: bytes, at: int, length: int) -> tuple[bytes | None, int]:
    """kcat prints -1 as the length of null."""
    return (None, at) if length < 0 else (output[at : at + length], at + length)


def signed(data: bytes) -> list[int]:
    return [byte - 256 if byte > 127 else byte for byte in data]


def header_list(text: bytes) -> list[dict]:
    if not text:
        return []
    pairs = re.split(rb",(?=[A-Za-z0-9_.-]+=)", text)
    return [{name.decode(): signed(value)} for name, value in (pair.split(b"=", 1) for pair in pairs)]


def lambda_record(topic: str, partition, offset, timestamp, key, value, headers) -> dict:
    record = {"topic": topic, "partition": partition, "offset": offset, "timestamp": timestamp, "timestampType": "CREATE_TIME"}
    if key is not None:
        record["key"] = base64.b64encode(key).decode()
    if value is not None:
        record["value"] = base64.b64encode(value).decode()
    record["headers"] = header_list(headers)
    return record


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--records-max", type=int, default=10_000)
    parser.add_argument("--bytes-max", type=int, default=6 * 1024 * 1024)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    head, tail = f"<{secrets.token_hex(12)}>", f"<{secrets.token_hex(12)}>"
    command = ["kcat", "-C", "-q", "-e", "-o", "beginning", "-b", args.bootstrap, "-t", args.topic]
    command += ["-f", f"{head}%h{tail}%p %o %T %K %S\\n%k%s"]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout

    partitions: dict[int, list] = {}
    for record in records(output, head.encode(), tail.encode()):
        partitions.setdefault(record[0], []).append(record)
    # By time over all partitions, as a poller meets them; a partition's own order is kept whatever its timestamps say.
    merged = heapq.merge(*(partitions[p] for p in sorted(partitions)), key=lambda record: record[2])

    envelope = {"eventSource": "aws:kafka", "eventSourceArn": ARN, "bootstrapServers": args.bootstrap}
    # Every "topic-partition" member and the envelope, whether or not this event needs them all.
    room = args.bytes_max - len(json.dumps(envelope)) - sum(len(args.topic) + 20 for _ in partitions) - 64
    event: dict[str, list] = {}
    count = size = written = 0

    def write() -> None:
        nonlocal event, count, size, written
        if count:
            body = json.dumps({**envelope, "records": event}, separators=(",", ":"))
            (args.out / f"event-{written:06}.json").write_text(body)
            written += 1
        event, count, size = {}, 0, 0

    with open(args.out / "read.jsonl", "w") as read:
        for partition, offset, timestamp, key, value, headers in merged:
            record = lambda_record(args.topic, partition, offset, timestamp, key, value, headers)
            length = len(json.dumps(record, separators=(",", ":"))) + 1
            if count == args.records_max or size + length > room:
                write()
            event.setdefault(f"{args.topic}-{partition}", []).append(record)
            count += 1
            size += length
            read.write(json.dumps({"partition": partition, "offset": offset, "timestamp_ms": timestamp}) + "\n")
    write()
    print(json.dumps({"records": sum(map(len, partitions.values())), "events": written}))


if __name__ == "__main__":
    main()
