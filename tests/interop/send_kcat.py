"""Sends records to a Kafka topic with kcat: keys, headers, partitions, null and empty values, any bytes.

send_kcat.py --bootstrap ADDR --topic T --records FILE    (FILE as employee_producer.py writes it)

Records of one partition arrive in the file's order. kcat takes one partition and one set of headers a run, and one
convention for empty fields, so the records are sent as runs of those that share them; each run ends flushed.
"""

import argparse
import base64
import itertools
import json
import secrets
import subprocess


def unbase64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def send(bootstrap: str, topic: str, partition: int, keyed: bool, null: bool, headers: tuple, records: list) -> None:
    # Random marks as delimiters: kcat takes texts of any length, and payloads may hold any byte.
    between, after = f"<{secrets.token_hex(12)}>", f"<{secrets.token_hex(12)}>"
    command = ["kcat", "-P", "-q", "-b", bootstrap, "-t", topic, "-p", str(partition), "-D", after]
    command += ["-X", "acks=all", "-X", "enable.idempotence=true"]
    if keyed:
        command += ["-K", between]
    if null:
        command += ["-Z"]
    command = [part.encode() for part in command]
    for name, value in headers:
        # As bytes: an argument is not text, and header values need not be either. A NUL can't be passed.
        command += [b"-H", name.encode() + b"=" + base64.b64decode(value)]
    body = bytearray()
    for record in records:
        if keyed:
            body += unbase64(record["key"]) + between.encode()
        body += (unbase64(record["value"]) or b"") + after.encode()
    subprocess.run(command, input=bytes(body), check=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--records", required=True)
    args = parser.parse_args()

    with open(args.records) as lines:
        records = [json.loads(line) for line in lines]
    records.sort(key=lambda record: record["partition"])  # stable: the order within a partition stays

    def alike(record):
        headers = tuple((name, value) for name, value in record["headers"])
        return record["partition"], record["key"] is not None, record["value"] is None, headers

    for (partition, keyed, null, headers), run in itertools.groupby(records, key=alike):
        run = list(run)
        if null and (not keyed or any(not record["key"] for record in run)):
            raise SystemExit("kcat can't send a null value without a key, nor with an empty one")
        send(args.bootstrap, args.topic, partition, keyed, null, headers, run)


if __name__ == "__main__":
    main()
