"""A table that Spark made and goes on writing to, joined by frazil: Spark inserts, deletes, compacts and expires while frazil folds.

spark_join.py --frazil BINARY --work DIR --jars JAR,... [--rounds N] [--modes append,dedup,...] [--seed S]

For each mode Spark makes a partitioned, sorted table with rows of its own in the catalog of the project. Then frazil ingests and folds
in a loop of its own, and is killed now and then, while Spark inserts and deletes rows, rewrites data files, position deletes and
manifests, and expires snapshots. At the end every staged event is handed over once more and folded: nothing may enter twice. What the
table must hold is worked out by a dictionary, from what was sent and what Spark did, and read by Spark, PyIceberg and DuckDB. Files that
no snapshot names are removed by Spark, and the table is read again. Then rows go by equality delete files, as streaming engines write
them, and last a column is dropped and added again under its name (O-29).
"""

import argparse
import base64
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

from spark.session import session

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PARTITIONS = 3
REGIONS = ["eu", "us", "asia"]
# Keys of records, and of rows that are Spark's alone.
KEYS, THEIRS = 400, 10_000
LARGE = 10_000_000_000
BATCH = 120
# Seconds between folds at most, to begin with and where the other writer would never be first otherwise.
PAUSE, PAUSE_MAX = 1.0, 20.0
DAYS_5 = 5 * 86_400

MODES = {
    "append": 'mode = "append"',
    "dedup": 'mode = "dedup"\nprimary_key = ["id"]',
    "merge-on-read": 'mode = "upsert"\nprimary_key = ["id"]\nwrite = "auto"',
    "copy-on-write": 'mode = "upsert"\nprimary_key = ["id"]\nwrite = "auto"',
}

# What Iceberg's writers say where another commit came first, and SQLite where another process holds the catalog.
REFUSALS = ("CommitFailed", "ValidationException", "conflict", "Missing required files", "SQLITE_BUSY")

PIPELINE = """\
[source]
topics = ["{table}"]
name = "spark"

[key]
format = "json"
framing = "bare"

[value]
format = "json"
framing = "bare"

[table]
name = "db.{table}"
exists = "join"
{mode}

[table.columns]
id = {{ from = "@key.id", type = "long" }}
region = {{ type = "string" }}
v = {{ type = "string" }}
n = {{ type = "int" }}
"""


def encoded(value: dict | None) -> str | None:
    return None if value is None else base64.b64encode(json.dumps(value).encode()).decode()


class Project:
    """A folder with one pipeline, and frazil in it."""

    def __init__(self, frazil: pathlib.Path, folder: pathlib.Path, table: str, mode: str):
        self.frazil, self.folder, self.table = frazil, folder, table
        (folder / "pipelines").mkdir(parents=True, exist_ok=True)
        text = PIPELINE.format(table=table, mode=mode)
        (folder / f"pipelines/{table}.toml").write_text(text)

    def line(self, *command: str) -> list[str]:
        return [str(self.frazil), "--dir", str(self.folder), "--json", *command]

    def run(self, *command: str, body: str = "", codes: tuple[int, ...] = (0,)) -> dict:
        done = subprocess.run(self.line(*command), input=body, capture_output=True, text=True, cwd=self.folder)
        if done.returncode not in codes:
            raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return json.loads(done.stdout)

    def ingest(self, event: str) -> None:
        self.run("ingest", self.table, "--event", "-", body=event)

    def fold(self) -> dict:
        return self.run("fold", self.table)["tables"][0]

    def metadata(self) -> str:
        import sqlite3

        with sqlite3.connect(self.folder / "catalog.db", timeout=30) as catalog:
            found = catalog.execute(
                "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = 'frazil' AND table_name = ?", [self.table]
            )
            return found.fetchone()[0]

    def ledger(self) -> dict:
        with open(self.metadata().removeprefix("file://").removeprefix("file:")) as file:
            properties = json.load(file)["properties"]
        return next(json.loads(text) for name, text in properties.items() if name.startswith("frazil.ledger."))


class Topic:
    """Records, and what of them a table of a mode holds."""

    def __init__(self, name: str, mode: str, chance: random.Random):
        self.name, self.mode, self.chance, self.next = name, mode, chance, collections.Counter()
        self.records: list[tuple[int, dict | None]] = []
        self.events: list[str] = []

    def event(self) -> str:
        by_partition: dict[str, list] = collections.defaultdict(list)
        for _ in range(BATCH):
            key = self.chance.randrange(KEYS)
            # One key is in one partition, so that its records have an order.
            partition = key % PARTITIONS
            offset = self.next[partition]
            self.next[partition] += 1
            deletes = self.upserts and self.chance.random() < 0.1
            region = self.chance.choice(REGIONS)
            value = None if deletes else {"region": region, "v": f"{partition}:{offset}", "n": len(self.records)}
            self.records.append((key, value))
            by_partition[f"{self.name}-{partition}"].append({
                "topic": self.name, "partition": partition, "offset": offset, "timestamp": 1_793_607_600_000 + len(self.records),
                "timestampType": "CREATE_TIME", "key": encoded({"id": key}), "value": encoded(value), "headers": [],
            })
        event = json.dumps({"eventSource": "SelfManagedKafka", "records": by_partition})
        self.events.append(event)
        return event

    def again(self) -> list[str]:
        """All records in other events."""
        cut = []
        for first in range(0, len(self.events), 7):
            by_partition: dict[str, list] = collections.defaultdict(list)
            for event in map(json.loads, self.events[first : first + 7]):
                for partition, records in event["records"].items():
                    by_partition[partition] += records
            cut.append(json.dumps({"eventSource": "SelfManagedKafka", "records": by_partition}))
        return cut

    @property
    def upserts(self) -> bool:
        return self.mode in ("merge-on-read", "copy-on-write")

    def rows(self, before: dict[int, tuple]) -> list[tuple]:
        """The rows made of records, with those that were there `before` under keys of records."""
        row = lambda key, value: (key, value["region"], value["v"], value["n"])
        if self.mode == "append":
            return [(key, *rest) for key, rest in before.items()] + [row(*record) for record in self.records]
        rows = {key: (key, *rest) for key, rest in before.items()}
        for key, value in self.records:
            if self.mode == "dedup":
                rows.setdefault(key, row(key, value))
            elif value is None:
                rows.pop(key, None)
            else:
                rows[key] = row(key, value)
        return list(rows.values())


class Folding(threading.Thread):
    """Ingests and folds until it is told to end; some folds are killed."""

    def __init__(self, project: Project, topic: Topic, chance: random.Random):
        super().__init__(daemon=True)
        self.project, self.topic, self.chance = project, topic, chance
        self.ends = threading.Event()
        self.folds = self.killed = self.conflicts = 0
        # Between folds, in seconds at most.
        self.pause = PAUSE
        self.failure: str | None = None

    def run(self) -> None:
        try:
            while not self.ends.is_set():
                self.project.ingest(self.topic.event())
                self.step()
                self.ends.wait(self.chance.uniform(0, self.pause))
        except BaseException as error:  # Said by the main thread.
            self.failure = f"{type(error).__name__}: {error}"

    def step(self) -> None:
        fold = subprocess.Popen(
            self.project.line("fold", self.project.table), cwd=self.project.folder, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )
        if self.chance.random() < 0.25:
            time.sleep(self.chance.uniform(0.02, 0.4))
            if fold.poll() is None:
                fold.send_signal(signal.SIGKILL)
                fold.communicate()
                self.killed += 1
                return
        out, err = fold.communicate()
        # One that others were always ahead of says so, and the next takes all of it.
        contended = '"fold.contended"' in out
        if fold.returncode != 0 and not contended:
            raise SystemExit(f"fold: exit {fold.returncode}\n{out}\n{err}")
        self.folds += not contended
        if not contended:
            self.conflicts += json.loads(out).get("conflicts_retried", 0)


class Owner:
    """Spark, which made the table and goes on with it. It tries again what the other's commit has kept from being applied."""

    def __init__(self, spark, table: str):
        self.spark, self.name, self.done = spark, f"frazil.db.{table}", collections.Counter()
        self.beside: Folding | None = None
        self.rows: dict[int, tuple] = {}
        self.next = THEIRS

    def sql(self, text: str):
        return self.spark.sql(text)

    def again(self, what: str, text: str) -> None:
        for _ in range(40):
            try:
                self.sql(text)
                self.done[what] += 1
                if self.beside:
                    self.beside.pause = PAUSE
                return
            except Exception as error:
                # Another commit came first: Iceberg's writers say so, and leave the table as it was.
                if not any(word in str(error) for word in REFUSALS):
                    raise
                self.done[f"{what}, refused"] += 1
                if self.beside:
                    self.beside.pause = min(self.beside.pause * 1.5, PAUSE_MAX)
        raise SystemExit(f"Spark never came first: {what}")

    def insert(self, count: int) -> None:
        new = {self.next + n: (REGIONS[n % 3], f"spark {self.next + n}", n) for n in range(count)}
        self.next += count
        self.sql(f"REFRESH TABLE {self.name}")
        # Its SQL wants a value for every column: also for those that frazil has added meanwhile.
        added = self.spark.table(self.name).columns[4:]
        values = ", ".join(f"({', '.join([f'{key}L', repr(region), repr(v), str(n), *['NULL'] * len(added)])})" for key, (region, v, n) in new.items())
        try:
            self.again("insert", f"INSERT INTO {self.name} ({', '.join(['id', 'region', 'v', 'n', *added])}) VALUES {values}")
        except Exception as error:
            if "CANNOT_FIND_DATA" not in str(error) or added:
                raise
            self.insert(count)
            return
        self.rows.update(new)

    def delete(self, chance: random.Random) -> None:
        """Deletes rows of its own, which nobody else's records have the key of."""
        gone = chance.sample(sorted(self.rows), min(5, len(self.rows)))
        self.again("delete", f"DELETE FROM {self.name} WHERE id IN ({', '.join(map(str, gone))})")
        for key in gone:
            del self.rows[key]

    def call(self, procedure: str, arguments: str = "") -> None:
        table = f"table => '{self.name.removeprefix('frazil.')}'"
        self.again(procedure, f"CALL frazil.system.{procedure}({', '.join(filter(None, [table, arguments]))})")

    def compact(self) -> None:
        self.call("rewrite_data_files", "options => map('rewrite-all', 'true', 'min-input-files', '2')")

    def expire(self, kept: int) -> None:
        self.call("expire_snapshots", f"older_than => TIMESTAMP '{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())}', retain_last => {kept}")


def create(owner: Owner, mode: str, seed: int) -> dict[int, tuple]:
    """Makes the table, and gives rows that are under keys of records."""
    merge = {"merge-on-read": "merge-on-read", "copy-on-write": "copy-on-write"}.get(mode)
    properties = {"write.delete.mode": "merge-on-read", "format-version": "2", "made-by": "spark"}
    if merge:
        properties["write.merge.mode"] = merge
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    owner.sql("CREATE NAMESPACE IF NOT EXISTS frazil.db")
    owner.sql(f"CREATE TABLE {owner.name} (id BIGINT NOT NULL, region STRING, v STRING, n INT) USING iceberg "
              f"PARTITIONED BY (region, bucket(4, id)) TBLPROPERTIES ({listed})")
    owner.sql(f"ALTER TABLE {owner.name} WRITE ORDERED BY id DESC NULLS LAST")
    before = {key: (REGIONS[(key + seed) % 3], f"before {key}", key) for key in range(0, KEYS, 3)}
    values = ", ".join(f"({key}L, '{region}', '{v}', {n})" for key, (region, v, n) in before.items())
    owner.sql(f"INSERT INTO {owner.name} (id, region, v, n) VALUES {values}")
    owner.insert(60)
    return before


def spark_rows(owner: Owner) -> list[tuple]:
    owner.sql(f"REFRESH TABLE {owner.name}")
    return sorted(tuple(row) for row in owner.sql(f"SELECT id, region, v, n FROM {owner.name}").collect())


def others(python: str, folder: pathlib.Path, table: str) -> dict[str, list[tuple]]:
    """The rows as PyIceberg and DuckDB read them."""
    found = {}
    for engine in ("pyiceberg", "duckdb"):
        line = [python, str(ROOT / "tests/interop/read_table.py"), "--dir", str(folder), "--table", f"db.{table}", "--engine", engine,
                "--columns", "id,region,v,n", "--rows"]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{engine}: {done.stderr}")
        rows = map(json.loads, done.stdout.splitlines())
        found[engine] = sorted((row["id"], row["region"], row["v"], row["n"]) for row in rows)
    return found


def hold(what: str, found: list[tuple], wanted: list[tuple]) -> None:
    if found == wanted:
        return
    lost, more = collections.Counter(wanted) - collections.Counter(found), collections.Counter(found) - collections.Counter(wanted)
    raise SystemExit(f"{what}: {len(found)} rows for {len(wanted)}; lost {list(lost.items())[:5]}, more {list(more.items())[:5]}")


def joined(args: argparse.Namespace, spark, mode: str) -> None:
    chance = random.Random(f"{args.seed} {mode}")
    table = mode.replace("-", "_")
    project = Project(args.frazil, args.work, table, MODES[mode])
    owner = Owner(spark, table)
    before = create(owner, mode, args.seed)
    plan = project.run("plan", table)
    assert plan["live"]["state"] == "present" and not plan["faults"], plan

    topic = Topic(table, mode, random.Random(f"{args.seed} {mode} records"))
    folding = Folding(project, topic, random.Random(f"{args.seed} {mode} kills"))
    owner.beside = folding
    folding.start()
    for number in range(args.rounds):
        owner.insert(9)
        owner.compact()
        owner.delete(chance)
        owner.call("rewrite_position_delete_files", "options => map('rewrite-all', 'true')")
        owner.call("rewrite_manifests")
        # Sometimes nothing of frazil's is left.
        owner.expire(chance.choice([1, 1, 3]))
        if folding.failure:
            break
    folding.ends.set()
    folding.join()
    owner.beside = None
    if folding.failure:
        raise SystemExit(f"{mode}: {folding.failure}")

    project.fold()
    mine = topic.rows(before)
    wanted = sorted(mine + [(key, *rest) for key, rest in owner.rows.items()])
    hold(f"{mode}: Spark", spark_rows(owner), wanted)
    # The whole topic once more, cut otherwise: everything is known.
    for event in topic.again():
        project.ingest(event)
    project.fold()
    again = project.fold()
    assert again["rows_added"] == 0 and not again["committed"], again
    ledger = project.ledger()
    partitions = [found for by_topic in ledger["sources"].values() for found in by_topic[table].values()]
    assert len(partitions) == PARTITIONS and all(len(partition["reached"]) == 1 for partition in partitions), partitions
    counts = collections.Counter()
    for partition in partitions:
        counts.update({name: count for name, count in partition["counts"].items() if isinstance(count, int)})
    assert counts["undelivered"] == 0 and counts["dead"] == 0, counts
    if mode in ("append", "dedup"):
        assert counts["rows_added"] == len(mine) - len(before), (counts, len(mine), len(before))
    if mode == "append":
        assert counts["rows_added"] == len(topic.records), counts

    # Frazil's own attempts that died, and files that compaction left: none of them is of the table.
    past = time.time() - DAYS_5
    folder = args.work / f"warehouse/db/{table}"
    for path in folder.rglob("*"):
        os.utime(path, (past, past))
    files = sum(path.is_file() for path in folder.rglob("*"))
    owner.expire(1)
    owner.call("remove_orphan_files")
    left = sum(path.is_file() for path in folder.rglob("*"))
    hold(f"{mode}: Spark, after the removal of orphans", spark_rows(owner), wanted)
    for engine, rows in others(args.python, args.work, table).items():
        hold(f"{mode}: {engine}", rows, wanted)
    project.ingest(topic.event())
    report = project.fold()
    assert report["committed"], report
    wanted = sorted(topic.rows(before) + [(key, *rest) for key, rest in owner.rows.items()])
    hold(f"{mode}: Spark, after one more fold", spark_rows(owner), wanted)
    properties = dict((row[0], row[1]) for row in owner.sql(f"SHOW TBLPROPERTIES {owner.name}").collect())
    assert properties["made-by"] == "spark" and "frazil.mapping-version" not in properties, properties
    print(json.dumps({
        "mode": mode, "records": len(topic.records), "rows": len(wanted), "folds": folding.folds, "killed": folding.killed,
        "retried": folding.conflicts, "spark": dict(owner.done), "orphans": files - left,
    }), flush=True)


def delete_by_equality(spark, name: str, keys: list[int]) -> None:
    """Deletes rows by an equality delete file, as streaming engines do, with Iceberg's own writer."""
    jvm, gateway = spark._jvm, spark.sparkContext._gateway
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    columns, ids = gateway.new_array(jvm.java.lang.String, 1), gateway.new_array(jvm.int, 1)
    columns[0], ids[0] = "id", table.schema().findField("id").fieldId()
    by = table.schema().select(columns)
    factory = jvm.org.apache.iceberg.data.GenericAppenderFactory(table.schema(), table.spec(), ids, by, None)
    path = f"{table.location()}/data/by-equality-{time.time_ns()}.parquet"
    out = table.encryption().encrypt(table.io().newOutputFile(path))
    writer = factory.newEqDeleteWriter(out, jvm.org.apache.iceberg.FileFormat.PARQUET, None)
    for key in keys:
        record = jvm.org.apache.iceberg.data.GenericRecord.create(by)
        # Python's numbers become Java's longs where no int holds them.
        record.setField("id", key)
        writer.write(record)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def deleted_by_equality(args: argparse.Namespace, spark) -> None:
    """A row that an equality delete took away is no duplicate of its key, and no version of it."""
    for mode in ("dedup", "merge-on-read", "copy-on-write"):
        table = f"equality_{mode.replace('-', '_')}"
        project = Project(args.frazil, args.work, table, MODES[mode].replace('"auto"', f'"{mode}"'))
        owner = Owner(spark, table)
        owner.sql(f"CREATE TABLE {owner.name} (id BIGINT NOT NULL, region STRING, v STRING, n INT) USING iceberg "
                  "TBLPROPERTIES ('format-version' = '2')")
        values = ", ".join(f"({LARGE + key}L, 'eu', 'theirs', {key})" for key in range(10))
        owner.sql(f"INSERT INTO {owner.name} VALUES {values}")
        rows = {LARGE + key: (LARGE + key, "eu", "theirs", key) for key in range(10)}
        offset = 0
        for gone, come in (([2, 7], [2, 3, 20]), ([3, 20], [3, 4, 7])):
            gone, come = [LARGE + key for key in gone], [LARGE + key for key in come]
            delete_by_equality(spark, owner.name, gone)
            for key in gone:
                del rows[key]
            records = []
            for key in come:
                value = {"region": "us", "v": f"ours {offset}", "n": offset}
                records.append({"topic": table, "partition": 0, "offset": offset, "timestamp": 1_793_607_600_000 + offset,
                                "timestampType": "CREATE_TIME", "key": encoded({"id": key}), "value": encoded(value), "headers": []})
                if mode != "dedup" or key not in rows:
                    rows[key] = (key, "us", f"ours {offset}", offset)
                offset += 1
            project.ingest(json.dumps({"eventSource": "SelfManagedKafka", "records": {f"{table}-0": records}}))
            project.fold()
            hold(f"equality deletes, {mode}: Spark", spark_rows(owner), sorted(rows.values()))
        print(json.dumps({"case": "equality deletes", "mode": mode, "rows": len(rows)}), flush=True)


def dropped_and_added(args: argparse.Namespace, spark) -> None:
    """O-29: a column that is dropped and added again under its name is another column, also after compaction."""
    text = 'mode = "append"'
    project = Project(args.frazil, args.work, "o29", text)
    path = args.work / "pipelines/o29.toml"
    body = path.read_text()
    body = body.replace('[key]\nformat = "json"\nframing = "bare"\n', "")
    path.write_text(body[: body.index("[table.columns]")] + '[table.columns]\nid = { type = "int" }\nnote = { type = "string" }\n')
    owner = Owner(spark, "o29")
    owner.sql(f"CREATE TABLE {owner.name} (id INT, note STRING) USING iceberg TBLPROPERTIES ('format-version' = '2')")

    def fold(offset: int, value: dict) -> None:
        record = {"topic": "o29", "partition": 0, "offset": offset, "timestamp": 1_793_607_600_000 + offset,
                  "timestampType": "CREATE_TIME", "value": encoded(value), "headers": []}
        project.ingest(json.dumps({"eventSource": "SelfManagedKafka", "records": {"o29-0": [record]}}))
        report = project.fold()
        assert report["rows_added"] == 1, report

    def rows() -> list[tuple]:
        owner.sql(f"REFRESH TABLE {owner.name}")
        return sorted(tuple(row) for row in owner.sql(f"SELECT id, memo FROM {owner.name}").collect())

    fold(0, {"id": 1, "note": "old"})
    owner.sql(f"ALTER TABLE {owner.name} DROP COLUMN note")
    owner.sql(f"ALTER TABLE {owner.name} ADD COLUMN note STRING")
    fold(1, {"id": 2, "note": "new"})
    owner.sql(f"ALTER TABLE {owner.name} RENAME COLUMN note TO memo")
    wanted = [(1, None), (2, "new")]
    hold("O-29, before compaction", rows(), wanted)
    owner.compact()
    hold("O-29, after compaction", rows(), wanted)
    fold(2, {"id": 3, "note": "newer"})
    owner.compact()
    hold("O-29, after a fold and compaction", rows(), [*wanted, (3, "newer")])
    print(json.dumps({"case": "O-29", "spark": dict(owner.done)}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--frazil", required=True, type=pathlib.Path)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--jars", required=True, help="Iceberg for Spark, and SQLite's driver, comma-separated")
    parser.add_argument("--python", default=sys.executable, help="a Python that has PyIceberg and DuckDB")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.frazil, args.work = args.frazil.absolute(), args.work.absolute()
    args.work.mkdir(parents=True)
    # It makes the catalog's tables, which Spark then finds.
    first = Project(args.frazil, args.work, "first", MODES["append"])
    first.run("fold", "first", codes=(0, 2, 3))
    (args.work / "pipelines/first.toml").unlink()
    spark = session(args.jars, **{
        "spark.sql.catalog.frazil": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.frazil.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "spark.sql.catalog.frazil.uri": f"jdbc:sqlite:{args.work}/catalog.db",
        "spark.sql.catalog.frazil.jdbc.busy_timeout": "30000",
        # Its look for the catalog's tables would keep a lock on the file.
        "spark.sql.catalog.frazil.jdbc.init-catalog-tables": "false",
        "spark.sql.catalog.frazil.warehouse": f"file://{args.work}/warehouse",
        "spark.sql.catalog.frazil.cache-enabled": "false",
    })
    # What is refused is tried again, and counted.
    spark.sparkContext.setLogLevel("OFF")
    for mode in filter(None, args.modes.split(",")):
        joined(args, spark, mode)
    deleted_by_equality(args, spark)
    dropped_and_added(args, spark)


if __name__ == "__main__":
    main()
