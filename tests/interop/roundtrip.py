"""A real producer, a real broker, frazil, and other people's readers: what was sent is what the table holds.

roundtrip.py --frazil BINARY --work DIR [--records N] [--partitions P] [--seed S] [--event-records M]

Employee records made by protobuf's Python library go by kcat to an Apache Kafka node, come back by kcat, are wrapped as
Lambda events, staged by `frazil ingest --event` (every third event twice) and folded by `frazil fold`. Then, for every
record: its row once, under its own partition, offset and timestamp; or its dead letter; or, for a null value, nothing.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOPIC = "employee-events"  # with a hyphen: "topic-partition" names must survive it
TABLE = "bigdata.employee"

PIPELINE = f"""\
[source]
topics = ["{TOPIC}"]

[value]
format = "protobuf"
framing = "bare"
schema = {{ proto = "schemas/employee.proto", message = "gsr.proto.post.Employee" }}

[table]
name = "{TABLE}"
mode = "append"
partition_by = ["bucket(8, employee_id)", "day(start_date)"]
fields = "listed"

[table.columns]
employee_id = {{ from = "id", type = "long" }}
name = {{ from = "name" }}
address = {{ from = "address" }}
age = "employee_age"
start_date = {{ from = "start_date" }}
team = "team.name"
location = "team.location"
role = {{ from = "role" }}
"""


def run(*command, **options) -> str:
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def lines(path: pathlib.Path):
    with open(path) as file:
        return [json.loads(line) for line in file]


class Frazil:
    def __init__(self, binary: pathlib.Path, folder: pathlib.Path):
        self.binary, self.folder = binary, folder

    def __call__(self, *arguments) -> dict:
        document = json.loads(run(self.binary, *arguments, "--dir", self.folder, "--json", cwd=self.folder))
        if not document["ok"]:
            raise SystemExit(f"frazil {arguments[0]}: {document}")
        return document


def send(work: pathlib.Path, bootstrap: str, args) -> None:
    proto = ROOT / "proto" / "employee.proto"
    run(sys.executable, HERE / "employee_producer.py", "--proto", proto, "--records", args.records,
        "--partitions", args.partitions, "--seed", args.seed, "--out", work / "sent")
    run(sys.executable, HERE / "send_kcat.py", "--bootstrap", bootstrap, "--topic", TOPIC,
        "--records", work / "sent" / "records.jsonl")


def ingest(frazil: Frazil, events: list[pathlib.Path]) -> dict:
    totals = {"records": 0, "dead_letters": 0, "staged": set()}
    for i, event in enumerate(events):
        # Lambda delivers at least once.
        for attempt in range(2 if i % 3 == 1 else 1):
            document = frazil("ingest", "--event", event)
            if document["response"]["batchItemFailures"]:
                raise SystemExit(f"{event} was not stored: {document}")
            totals["staged"].update(document["staged"])
            if attempt == 0:
                totals["records"] += document["records"]
                totals["dead_letters"] += document["dead_letters"]
    return totals


def expected_rows(work: pathlib.Path) -> list[dict]:
    read = {(r["partition"], r["offset"]): r["timestamp_ms"] for r in lines(work / "events" / "read.jsonl")}
    truth = lines(work / "sent" / "truth.jsonl")
    if {(t["partition"], t["offset"]) for t in truth} != read.keys():
        raise SystemExit("kcat did not read back the coordinates that were sent")
    rows = []
    for record in truth:
        if record["fate"] == "row":
            partition, offset = record["partition"], record["offset"]
            coordinate = {"_kafka_topic": TOPIC, "_kafka_partition": partition, "_kafka_offset": offset}
            timestamp = {"_kafka_timestamp": read[partition, offset] * 1000}
            rows.append({**record["row"], **coordinate, **timestamp})
    return rows


def compare(expected: list[dict], found: list[dict]) -> None:
    def place(row):
        return row["_kafka_partition"], row["_kafka_offset"]

    expected, found = sorted(expected, key=place), sorted(found, key=place)
    if [place(row) for row in found] != [place(row) for row in expected]:
        missing = {place(row) for row in expected} - {place(row) for row in found}
        surplus = len(found) - len({place(row) for row in found})
        raise SystemExit(f"{len(found)} rows, {len(expected)} sent; missing {sorted(missing)[:10]}, {surplus} twice")
    for want, have in zip(expected, found):
        have = {name: have[name] for name in want}
        if have != want:
            raise SystemExit(f"row {place(want)} differs:\n  sent  {str(want)[:2000]}\n  found {str(have)[:2000]}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--frazil", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--event-records", type=int, default=3000)
    args = parser.parse_args()

    work = args.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    folder = work / "frazil"
    for name in ("pipelines", "schemas"):
        (folder / name).mkdir(parents=True)
    (folder / "pipelines" / "employee.toml").write_text(PIPELINE)
    shutil.copy(ROOT / "proto" / "employee.proto", folder / "schemas")

    kafka, node = ROOT / "tests" / "services" / "kafka", work / "kafka"
    print(run(kafka, "start", node).strip())
    try:
        bootstrap = (node / "bootstrap").read_text().strip()
        run(kafka, "topic", node, TOPIC, args.partitions)
        send(work, bootstrap, args)
        print("sent and read back:", run(
            sys.executable, HERE / "wrap_event.py", "--bootstrap", bootstrap, "--topic", TOPIC,
            "--out", work / "events", "--records-max", args.event_records).strip())
    finally:
        run(kafka, "stop", node)

    frazil = Frazil(args.frazil.resolve(), folder)
    events = sorted((work / "events").glob("event-*.json"))
    # In two halves with a fold after each: the second meets settled offsets and an existing table.
    half = len(events) // 2
    totals = [ingest(frazil, events[:half])]
    frazil("fold")
    totals.append(ingest(frazil, [*events[max(half - 1, 0):half], *events[half:]]))
    print("folded:", json.dumps(frazil("fold")["tables"]))
    again = frazil("fold")
    if any(table["rows_added"] for table in again["tables"]):
        raise SystemExit(f"a fold with nothing new added rows: {again}")

    expected = expected_rows(work)
    reader = [sys.executable, HERE / "read_table.py", "--dir", folder, "--table", TABLE]
    found = [json.loads(line) for line in run(*reader, "--engine", "pyiceberg", "--rows").splitlines()]
    compare(expected, found)
    dead = [t for t in lines(work / "sent" / "truth.jsonl") if t["fate"] == "dead"]
    letters = {}
    for path in (folder / "dead-letters").rglob("*.jsonl"):
        for letter in lines(path):
            letters[letter["partition"], letter["offset"]] = letter
    if letters.keys() != {(t["partition"], t["offset"]) for t in dead}:
        raise SystemExit(f"dead letters {sorted(letters)}, sent {[(t['partition'], t['offset']) for t in dead]}")
    prints = {}
    for engine in ("pyiceberg", "duckdb", "chdb"):
        document = json.loads(run(*reader, "--engine", engine, "--json"))
        prints[engine] = {key: document[key] for key in ("rows", "columns", "row_sum")}
    if any(found != prints["pyiceberg"] for found in prints.values()):
        raise SystemExit(f"engines differ: {json.dumps(prints, indent=1)}")
    print(f"{len(expected)} rows equal what was sent, {len(letters)} dead letters, three engines agree")


if __name__ == "__main__":
    main()
