"""Many small folds beside somebody else's expiry: metadata stays bounded, the ledger whole, and every row there once.

expiry.py --frazil BINARY --work DIR [--folds N]

Every fold adds one row. After every tenth PyIceberg expires all snapshots but main's; between, it commits snapshots of its
own, on which the next folds stand. (It clears the parents of what it leaves: were main its own when it expires everything
else, nothing would show any more that frazil's commits are below, and the next fold would stop and say so.)
"""

import argparse
import base64
import datetime
import json
import pathlib
import shutil
import subprocess
import time

from pyiceberg.catalog.sql import SqlCatalog

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLE = "bigdata.employee"
TOPIC = "employees"
PARTITIONS = 4
PIPELINE = f"""\
[source]
topics = ["{TOPIC}"]
name = "expiry"

[value]
format = "protobuf"
framing = "bare"
schema = {{ proto = "proto/employee.proto", message = "gsr.proto.post.Employee" }}

[table]
name = "{TABLE}"
mode = "append"
fields = "listed"

[table.columns]
employee_id = {{ from = "id", type = "long" }}
"""
# Far fewer than the folds: without merging there would be one manifest for each.
MANIFESTS_MAX = 110
# The metadata log holds a hundred files, a snapshot and a log entry are a few hundred bytes each.
METADATA_BYTES_MAX = 128 * 1024


def varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def event(n: int) -> str:
    partition, offset = n % PARTITIONS, n // PARTITIONS
    record = {
        "topic": TOPIC,
        "partition": partition,
        "offset": offset,
        "timestamp": 1_793_607_600_000 + n,
        "timestampType": "CREATE_TIME",
        "value": base64.b64encode(b"\x08" + varint(n + 1)).decode(),
        "headers": [],
    }
    return json.dumps({"eventSource": "SelfManagedKafka", "records": {f"{TOPIC}-{partition}": [record]}})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--frazil", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--folds", type=int, default=200)
    args = parser.parse_args()
    work = args.work.absolute()
    (work / "pipelines").mkdir(parents=True)
    (work / "proto").mkdir()
    (work / "pipelines/employee.toml").write_text(PIPELINE)
    shutil.copy(ROOT / "proto/employee.proto", work / "proto")

    def frazil(*command: str, body: str = "") -> dict:
        line = [str(args.frazil.absolute()), "--dir", str(work), "--json", *command]
        done = subprocess.run(line, input=body, stdout=subprocess.PIPE, text=True, cwd=work)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(line)}: exit {done.returncode}\n{done.stdout}")
        return json.loads(done.stdout)

    catalog = SqlCatalog("frazil", uri=f"sqlite:///{work}/catalog.db", warehouse=f"file://{work}/warehouse")
    expired = foreign = 0
    for n in range(args.folds):
        frazil("ingest", "employee", "--event", "-", body=event(n))
        report = frazil("fold", "employee")["tables"][0]
        assert report["committed"] and report["rows_added"] == 1, report
        if n % 30 == 14:
            table = catalog.load_table(TABLE)
            table.append(table.scan().to_arrow().slice(0, 0))
            foreign += 1
        if n % 10 == 9:
            table = catalog.load_table(TABLE)
            before = len(table.metadata.snapshots)
            time.sleep(0.01)
            table.maintenance.expire_snapshots().older_than(datetime.datetime.now()).commit()
            expired += before - len(catalog.load_table(TABLE).metadata.snapshots)

    table = catalog.load_table(TABLE)
    rows = table.scan().to_arrow()
    found = sorted(rows["employee_id"].to_pylist())
    assert found == list(range(1, args.folds + 1)), f"{len(found)} rows, {len(set(found))} distinct"
    ledger = [json.loads(v) for k, v in table.metadata.properties.items() if k.startswith("frazil.ledger.")]
    assert len(ledger) == 1, ledger
    partitions = next(iter(ledger[0]["sources"].values()))[TOPIC]
    assert sum(p["counts"]["rows_added"] for p in partitions.values()) == args.folds
    assert all(len(p["reached"]) == 1 for p in partitions.values()), partitions
    manifests = len(table.current_snapshot().manifests(table.io))
    metadata_bytes = pathlib.Path(table.metadata_location.removeprefix("file://")).stat().st_size
    snapshots, log = len(table.metadata.snapshots), len(table.metadata.metadata_log)
    figures = {
        "folds": args.folds, "expired": expired, "foreign_snapshots": foreign, "snapshots": snapshots,
        "metadata_log": log, "metadata_bytes": metadata_bytes, "manifests": manifests,
    }
    print(json.dumps(figures))
    assert foreign > 0 and expired >= args.folds * 3 // 4
    assert snapshots <= 12 and log <= 100, figures
    assert manifests <= MANIFESTS_MAX and metadata_bytes <= METADATA_BYTES_MAX, figures


if __name__ == "__main__":
    main()
