"""Topics of every kind through `frazil run`: other people's producers, transactions, compaction, topics that change meanwhile.

kafka_topics.py --frazil BINARY --work DIR --bootstrap HOST:PORT --jars DIR

Each case has a topic and a project of its own. What must be in the table is known from what was sent, or from what another
consumer reads; and the table's ledger must account for every offset: rows, filtered, dead or passed over, with no hole.
"""

import argparse
import json
import pathlib
import re
import shutil
import signal
import subprocess
import time

from confluent_kafka import Consumer, Producer, TopicPartition

PROTO = """\
syntax = "proto3";
message Note { int32 id = 1; string text = 2; }
"""

PIPELINE = """\
[source]
topics = ["{topic}"]
name = "laptop"

[value]
format = "protobuf"
framing = "bare"
schema = {{ proto = "note.proto", message = "Note" }}

[table]
name = "db.notes"
mode = "append"

[fold]
max_age = "2s"
"""


def varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def note(number: int, text: str = "") -> bytes:
    value = b"\x08" + varint(number)
    return value + b"\x12" + varint(len(text)) + text.encode() if text else value


class Broker:
    def __init__(self, bootstrap: str, jars: pathlib.Path, folder: pathlib.Path):
        self.bootstrap, self.jars, self.folder = bootstrap, jars, folder
        folder.mkdir(parents=True, exist_ok=True)

    def tool(self, name: str, *arguments, given: bytes | None = None) -> None:
        command = ["java", "-Xmx128m", "-cp", f"{self.jars}/*", f"org.apache.kafka.tools.{name}",
                   "--bootstrap-server", self.bootstrap, *map(str, arguments)]
        done = subprocess.run(command, input=given, capture_output=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{name} {arguments}: {done.stdout.decode()}{done.stderr.decode()}")

    def topic(self, name: str, partitions: int, **config) -> None:
        configs = [part for key, value in config.items() for part in ("--config", f"{key.replace('_', '.')}={value}")]
        self.tool("TopicCommand", "--create", "--topic", name, "--partitions", partitions,
                  "--replication-factor", 1, *configs)

    def producer(self, **settings) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5,
                         **{key.replace("_", "."): value for key, value in settings.items()}})

    def send(self, topic: str, numbers, partitions: int) -> None:
        """A note of each number, to the partition of its remainder."""
        producer = self.producer()
        for number in numbers:
            producer.produce(topic, note(number), partition=number % partitions)
        producer.flush()

    def read(self, topic: str, partitions: int) -> dict:
        """{(partition, offset): value} as another consumer reads it, committed records only."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "judge", "enable.auto.commit": False,
                             "isolation.level": "read_committed", "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, n, 0) for n in range(partitions)])
        found, ended = {}, set()
        while len(ended) < partitions:
            message = consumer.poll(20)
            if message is None:
                raise SystemExit(f"{topic}: the judge's consumer got nothing")
            if message.error():
                ended.add(message.partition())
            else:
                found[message.partition(), message.offset()] = message.value()
        consumer.close()
        return found


class Project:
    def __init__(self, binary: pathlib.Path, broker: Broker, folder: pathlib.Path, topic: str):
        self.binary, self.broker, self.folder = binary, broker, folder
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "pipelines").mkdir(parents=True)
        (folder / "note.proto").write_text(PROTO)
        (folder / "pipelines" / "notes.toml").write_text(PIPELINE.format(topic=topic))
        self.log = open(folder / "log", "ab")

    def start(self, verb: str, *arguments) -> subprocess.Popen:
        command = [str(self.binary), verb, *map(str, arguments), "--json"]
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=self.log)

    def answer(self, verb: str, *arguments) -> tuple[int, dict]:
        process = self.start(verb, *arguments)
        out, _ = process.communicate(timeout=300)
        return process.returncode, json.loads(out)

    def __call__(self, verb: str, *arguments) -> dict:
        code, document = self.answer(verb, *arguments)
        if code != 0 or not document["ok"]:
            raise SystemExit(f"{self.folder.name}: frazil {verb} {arguments}: {code} {document}")
        return document

    def run(self, *arguments) -> dict:
        return self("run", "-b", self.broker.bootstrap, "--idle-seconds", 3, *arguments)

    def rows(self) -> dict:
        rows = self("query", "SELECT _kafka_partition AS p, _kafka_offset AS o, id, text FROM db.notes")["rows"]
        found = {(row["p"], row["o"]): (row["id"], row["text"]) for row in rows}
        if len(found) != len(rows):
            raise SystemExit(f"{self.folder.name}: {len(rows)} rows at {len(found)} coordinates")
        return found

    def ledger(self) -> dict:
        """{(source, partition): its part of the ledger}."""
        files = sorted((self.folder / ".frazil/warehouse/db/notes/metadata").glob("*.metadata.json"))
        properties = json.loads(files[-1].read_text())["properties"]
        text = next(value for key, value in properties.items() if key.startswith("frazil.ledger."))
        return {(source, int(partition)): part
                for source, topics in json.loads(text)["sources"].items()
                for partitions in topics.values() for partition, part in partitions.items()}

    def accounted(self, holes: dict | None = None) -> int:
        """Holds the ledger to its own sums; gives how many offsets were passed over."""
        passed_over = 0
        for at, part in self.ledger().items():
            counts = part["counts"]
            reached = sum(last - first + 1 for first, last in part["reached"])
            known = sum(counts.get(name, 0) for name in ("rows_added", "dead", "undelivered"))
            known += sum(counts.get("filtered", {}).values())
            if reached != known or (holes is None and len(part["reached"]) > 1):
                raise SystemExit(f"{self.folder.name}: {at}: {reached} offsets reached, {known} accounted for: {part}")
            passed_over += counts.get("undelivered", 0)
        return passed_over


def same(case: str, found, wanted) -> None:
    if found != wanted:
        extra, missing = set(found) - set(wanted), set(wanted) - set(found)
        raise SystemExit(f"{case}: {len(found)} and not {len(wanted)}; extra {sorted(extra)[:5]}, missing {sorted(missing)[:5]}")
    print(f"{case}: {len(found)}", flush=True)


def decoded(value: bytes) -> tuple[int, str]:
    number, shift, at = 0, 0, 1
    while True:
        number |= (value[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if value[at - 1] < 0x80:
            break
    return number, value[at + 2 :].decode() if at < len(value) else ""


def kcat(broker: Broker, project: Project, topic: str) -> None:
    broker.topic(topic, 3)
    values = [note(n, f"note {n}") for n in range(1, 2001)]
    mark = b"<then>"
    subprocess.run(["kcat", "-P", "-q", "-b", broker.bootstrap, "-t", topic, "-D", mark.decode(), "-H", "by=kcat"],
                   input=mark.join(values), check=True)
    project.run()
    same("records of kcat in the table", sorted(project.rows().values()), sorted(map(decoded, values)))
    project.accounted()


def console(broker: Broker, project: Project, topic: str) -> None:
    broker.topic(topic, 2)
    # A line of text each: no line ends among the bytes, and nothing beyond ASCII.
    numbers = [n for n in range(1, 128) if n not in (10, 13)]
    values = [note(n, f"line {n:03}") for n in numbers]
    broker.tool("ConsoleProducer", "--topic", topic, given=b"\n".join(values) + b"\n")
    project.run()
    same("records of Kafka's console producer in the table", sorted(project.rows().values()), sorted(map(decoded, values)))


def transactions(broker: Broker, project: Project, topic: str) -> None:
    broker.topic(topic, 2)
    producer = broker.producer(transactional_id="notes")
    producer.init_transactions()
    number = 0
    for transaction in range(60):
        producer.begin_transaction()
        for _ in range(transaction % 7):
            number += 1
            producer.produce(topic, note(number), partition=number % 2)
        producer.flush()
        if transaction % 3 == 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
        if transaction in (20, 40):
            project.run("--batch", 5)
    project.run()
    committed = {at: decoded(value) for at, value in broker.read(topic, 2).items()}
    same("committed records of transactions in the table", project.rows(), committed)
    # Between the first committed record of a partition and the last: nothing is known of what lies before or behind.
    spans = [[o for q, o in committed if q == p] for p in (0, 1)]
    wanted = sum(max(span) - min(span) + 1 for span in spans) - len(committed)
    same("markers and aborted records counted as passed over", [project.accounted()], [wanted])


def compacted(broker: Broker, project: Project, topic: str) -> None:
    broker.topic(topic, 1, cleanup_policy="compact", segment_ms=200, min_cleanable_dirty_ratio="0.01", delete_retention_ms=100,
                 segment_bytes=1048576)
    producer = broker.producer()
    sent, total = 0, None
    for round_ in range(120):
        for key in range(50):
            sent += 1
            producer.produce(topic, note(sent), key=str(key).encode(), partition=0)
        producer.flush()
        time.sleep(0.5)
        if round_ == 3:
            # Some of these records will be gone; what was folded before stays.
            project.run()
        if round_ >= 6:
            total = len(broker.read(topic, 1))
            if total < sent:
                break
    if total is None or total >= sent:
        raise SystemExit("compaction took nothing away")
    before = project.rows()
    project.run()
    kept = {at: decoded(value) for at, value in broker.read(topic, 1).items()}
    rows = project.rows()
    same("records of a compacted topic in the table, with those folded before", rows, {**kept, **before})
    offsets = [offset for _, offset in rows]
    same("the newest record of a compacted topic is there", [max(offsets)], [sent - 1])
    same("offsets of a compacted topic passed over", [project.accounted()], [sent - min(offsets) - len(rows)])


def backfilled(broker: Broker, project: Project, topic: str) -> None:
    broker.topic(topic, 3)
    broker.send(topic, range(1, 3001), 3)
    everything = {at: decoded(value) for at, value in broker.read(topic, 3).items()}
    kafka = ("-b", broker.bootstrap)
    planned = project("backfill", *kafka, "--from", "0:10,2:990", "--to", "0:20,1:5,2:995", "--dry-run")
    same("partitions that both ends name", [(p["partition"], p["from"], p["to"]) for p in planned["partitions"]],
         [(0, 10, 20), (2, 990, 995)])
    project("backfill", *kafka, "--from", "0:100,1:500", "--to", "0:200,1:700", "--batch", 30)
    part = {(p, o): row for (p, o), row in everything.items() if (p == 0 and 100 <= o < 200) or (p == 1 and 500 <= o < 700)}
    same("a stretch by offsets", project.rows(), part)
    again = project("backfill", *kafka, "--pollers", 3)
    same("all of it, those there already once", project.rows(), everything)
    same("records read again", [again["records"]], [3000])
    project.accounted()
    beyond = project("backfill", *kafka, "--from", "0:5000", "--to", "0:6000")
    same("records beyond a partition's end", [beyond["records"]], [0])
    same("a time before Kafka's", [project("backfill", *kafka, "--from", "1900-01-01T00:00Z", "--dry-run")["records_at_most"]], [3000])
    slow = project.start("backfill", *kafka, "--batch", 1)
    time.sleep(2)
    slow.send_signal(signal.SIGTERM)
    out, _ = slow.communicate(timeout=60)
    same("a backfill that was interrupted", [slow.returncode, json.loads(out)["error"]["code"]], [130, "interrupted"])
    code, refused = project.answer("backfill", *kafka, "--from", "0:50", "--to", "0:40")
    same("an end before the beginning", [code, refused["error"]["where"]], [2, "--from"])
    lines = subprocess.run([str(project.binary), "tail", *kafka, "--from", "0:5", "--records", "20", "--json"],
                           cwd=project.folder, stdout=subprocess.PIPE, stderr=project.log, check=True).stdout.splitlines()
    seen = [json.loads(line) for line in lines]
    same("records that tail shows", [(d["partition"], d["offset"], d["rows"][0]["id"]) for d in seen],
         [(0, 5 + n, everything[0, 5 + n][0]) for n in range(20)])


def undecided(broker: Broker, project: Project, topic: str) -> None:
    """A stretch whose end can't be reached is waited for, and then said: never taken for read."""
    broker.topic(topic, 2)
    broker.send(topic, range(0, 20), 2)
    producer = broker.producer(transactional_id="undecided")
    producer.init_transactions()
    producer.begin_transaction()
    for number in (20, 21, 22):
        producer.produce(topic, note(number), partition=0)
    producer.flush()
    broker.send(topic, range(30, 40), 2)
    kafka = ("-b", broker.bootstrap)

    def refused(what: str, code: str, *arguments) -> str:
        exit_code, said = project.answer("backfill", *kafka, "--wait", "3s", *arguments)
        same(what, [exit_code, said["ok"], said.get("error", {}).get("code")], [4, False, code])
        return said["error"]["message"] + (said["error"]["remedy"] or "")

    said = refused("a backfill up to a transaction that is open", "backfill.transaction")
    if f"{topic}-0 from offset 10" not in said or "--to 0:10" not in said:
        raise SystemExit(said)
    refused("one whose end is typed", "backfill.transaction", "--to", "0:12,1:3")
    said = project("backfill", *kafka, "--to", "0:10,1:15", "--wait", "3s")
    same("one that ends before it", [said["records"]], [25])
    waiting = project.start("backfill", *kafka)
    log = project.folder / "log"
    for _ in range(600):
        if "for 60 s at most" in log.read_text():
            break
        time.sleep(0.1)
    producer.commit_transaction()
    out, _ = waiting.communicate(timeout=120)
    same("one that has waited for its end", [waiting.returncode, json.loads(out)["records"]], [0, 33])
    same("records beside a transaction", project.rows(), {at: decoded(value) for at, value in broker.read(topic, 2).items()})
    project("pause", "--stage", "ingest")
    said = refused("a backfill while ingest is paused", "fold.paused")
    if "; 0 records are stored" not in said:
        raise SystemExit(said)
    project("unpause")
    if "PartitionEOF" in log.read_text():
        raise SystemExit("the end of a partition is shown as trouble")
    shown = project.start("tail", *kafka, "--records", "1000")
    time.sleep(3)
    shown.send_signal(signal.SIGINT)
    out, _ = shown.communicate(timeout=60)
    said = json.loads(out.splitlines()[-1])
    same("a tail that was ended before its number", [shown.returncode, said["error"]["code"]], [130, "interrupted"])


def latest(broker: Broker, project: Project, topic: str) -> None:
    broker.topic(topic, 3)
    broker.send(topic, [3], 3)
    project.run("--from", "latest")
    # One partition goes on, the others stay quiet; all of them go on between two runs.
    broker.send(topic, [4, 5, 6], 3)
    project.run("--from", "latest")
    same("what came between two runs that began at the latest", sorted(number for number, _ in project.rows().values()), [4, 5, 6])


def grown(broker: Broker, project: Project, topic: str) -> None:
    broker.topic(topic, 1)
    running = project.start("run", "-b", broker.bootstrap, "--pollers", 2, "--refresh-seconds", 1)
    broker.send(topic, [1], 1)
    time.sleep(2)
    broker.tool("TopicCommand", "--alter", "--topic", topic, "--partitions", 4)
    broker.send(topic, range(2, 102), 4)
    everything = {at: decoded(value) for at, value in broker.read(topic, 4).items()}
    for _ in range(60):
        time.sleep(1)
        code, found = project.answer("query", "SELECT count(*) AS n FROM db.notes")
        if code == 0 and found["rows"][0]["n"] >= len(everything):
            break
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=60)
    if running.returncode != 0:
        raise SystemExit(f"a topic that grew: {running.returncode} {out}")
    same("records of partitions that came later", project.rows(), everything)


def made_again(broker: Broker, project: Project, topic: str) -> None:
    broker.topic(topic, 2)
    broker.send(topic, range(1, 101), 2)
    project.run()
    old = project.rows()
    # Minutes tell the objects of the old topic from those of the new one.
    time.sleep(61 - time.time() % 60)
    running = project.start("run", "-b", broker.bootstrap)
    time.sleep(3)
    broker.tool("TopicCommand", "--delete", "--topic", topic)
    time.sleep(1)
    broker.topic(topic, 2)
    broker.send(topic, range(1001, 1021), 2)
    # It ends by itself, saying that the topic is gone, or goes on with the new one until the fold is stopped by what it sees.
    try:
        running.wait(30)
    except subprocess.TimeoutExpired:
        running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=120)
    said = json.loads(out)
    if said["ok"] or not re.match(r"kafka\.no_topic|fold\.topic_recreated", said["error"]["code"]):
        raise SystemExit(f"a topic made again while it is read: {said}")
    code, said = project.answer("run", "-b", broker.bootstrap, "--idle-seconds", 3)
    same("a topic made again is said, with what to do",
         [code, said["error"]["code"], "reset-source" in said["error"]["remedy"]], [2, "fold.topic_recreated", True])
    project("reset-source", "--topic", topic, "--yes")
    project.run()
    rows = project("query", "SELECT id FROM db.notes")["rows"]
    new = [decoded(value)[0] for value in broker.read(topic, 2).values()]
    same("records of the topic before and after", sorted(row["id"] for row in rows),
         sorted([number for number, _ in old.values()] + new))


def many(broker: Broker, project: Project, topic: str) -> None:
    """Topics by pattern, each into a table of its own; then one topic whose records' own field names their table."""
    counts = {f"{topic}-one": 3, f"{topic}-Two.x": 1}
    for name, partitions in counts.items():
        broker.topic(name, partitions)
    broker.topic(f"{topic}-heartbeat", 1)
    text = PIPELINE.format(topic=f"{topic}-*").replace('name = "laptop"', 'exclude = ["*-heartbeat"]\nname = "laptop"')
    text = text.replace('name = "db.notes"', 'name = "db.{topic}"')
    text += f'[tables."{topic}-Two.x"]\nmode = "dedup"\nprimary_key = ["id"]\n'
    (project.folder / "pipelines/notes.toml").write_text(text)
    running = project.start("run", "-b", broker.bootstrap, "--refresh-seconds", 1)
    for name, partitions in counts.items():
        broker.send(name, [*range(1, 301), *range(1, 11)], partitions)
    broker.send(f"{topic}-heartbeat", [1], 1)
    time.sleep(4)
    broker.topic(f"{topic}-later", 2)
    counts[f"{topic}-later"] = 2
    broker.send(f"{topic}-later", range(1, 51), 2)

    def table(name: str) -> str:
        return "db." + name.lower().replace("-", "_").replace(".", "_")

    def rows(name: str) -> list:
        code, found = project.answer("query", f"SELECT _kafka_partition AS p, _kafka_offset AS o, id FROM {name}")
        return [(row["p"], row["o"], row["id"]) for row in found["rows"]] if code == 0 else []

    for _ in range(60):
        time.sleep(1)
        if len(rows(table(f"{topic}-later"))) == 50:
            break
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=60)
    if running.returncode != 0:
        raise SystemExit(f"many tables: {running.returncode} {out}")
    for name, partitions in counts.items():
        sent = [(*at, decoded(value)[0]) for at, value in broker.read(name, partitions).items()]
        if "Two" in name:
            sent = [row for row in sent if row[1] < 300]
        same(f"into {table(name)}", sorted(rows(table(name))), sorted(sent))
    same("rows in all tables, as the run counts them", [json.loads(out)["rows_in_table"]], [310 + 300 + 50])
    if rows("db.many_heartbeat"):
        raise SystemExit("a topic that is left out was read")
    planned = project("plan")
    same("the plan knows each table", sorted((t["table"], t["mode"]) for t in planned["tables"]),
         sorted((table(name), "dedup" if "Two" in name else "append") for name in counts))
    code, said = project.answer("rollback", "--to", "-1h")
    same("a rollback is of one table, and asks which", [code, said["error"]["where"]], [2, "--table"])

    broker.topic(f"{topic}_by_field", 2)
    other = Project(project.binary, broker, project.folder.parent / "many-by-field", f"{topic}_by_field")
    path = other.folder / "pipelines/notes.toml"
    path.write_text(path.read_text().replace('name = "db.notes"', 'name = "db.{field:text}"'))
    producer = broker.producer()
    for number in range(600):
        to = "no name" if number % 100 == 99 else f"tenant-{number % 4}"
        producer.produce(f"{topic}_by_field", note(number, to), partition=number % 2)
    producer.flush()
    other.run()
    for tenant in range(4):
        found = other("query", f"SELECT id FROM db.tenant_{tenant}")["rows"]
        want = [number for number in range(600) if number % 4 == tenant and number % 100 != 99]
        same(f"into db.tenant_{tenant}", sorted(row["id"] for row in found), want)
    letters = [json.loads(line) for path in (other.folder / ".frazil/dead-letters").rglob("*.jsonl")
               for line in path.read_text().splitlines()]
    same("records whose field is no name", sorted((letter["class"], letter["path"]) for letter in letters),
         [("unroutable", "text")] * 6)


CASES = (many, kcat, console, transactions, compacted, backfilled, undecided, latest, grown, made_again)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("frazil", "work", "jars"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--only", choices=[case.__name__ for case in CASES])
    args = parser.parse_args()
    broker = Broker(args.bootstrap, args.jars.resolve(), args.work.resolve())
    for case in CASES:
        if args.only not in (None, case.__name__):
            continue
        topic = case.__name__.replace("_", "-")
        print(f"-- {topic}", flush=True)
        case(broker, Project(args.frazil.resolve(), broker, args.work.resolve() / topic, topic), topic)


if __name__ == "__main__":
    main()
