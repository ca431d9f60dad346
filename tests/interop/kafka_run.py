"""`frazil run` on a real broker, killed again and again: each record that was sent is in the table once.

kafka_run.py --frazil BINARY --work DIR --bootstrap HOST:PORT --topic TOPIC [--records N] [--run-kills K] [--fold-kills F] [--seed S]

The topic must be there and empty. `frazil produce` fills it while `frazil run` reads it, each time with another batch size, so
that what was handed over and not committed is cut anew; the process (mapping and ingest function in one) is killed with
SIGKILL after a random while, K times. Beside it `frazil fold` is killed F times. At the end one run drains the topic and is
ended by SIGTERM. Then every record is in the table at its own coordinate, once, and every employee as often as it was sent.
"""

import argparse
import collections
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

PIPELINE = """\
[source]
topics = ["{topic}"]
name = "laptop"

[value]
format = "protobuf"
framing = "bare"
schema = {{ proto = "schemas/employee.proto", message = "gsr.proto.post.Employee" }}

[table]
name = "bigdata.employee"
mode = "append"
partition_by = ["bucket(8, id)"]

[fold]
max_age = "{age}"
"""


class Project:
    def __init__(self, binary: pathlib.Path, folder: pathlib.Path, topic: str, env: dict | None = None):
        self.binary, self.folder, self.env = binary, folder, env
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "pipelines").mkdir(parents=True)
        (folder / "schemas").mkdir()
        shutil.copy(ROOT / "proto" / "employee.proto", folder / "schemas")
        (folder / "pipelines" / "employee.toml").write_text(PIPELINE.format(topic=topic, age="2s"))
        self.log = open(folder / "log", "ab")

    def start(self, *arguments) -> subprocess.Popen:
        command = [str(self.binary), *map(str, arguments)]
        return subprocess.Popen(command, cwd=self.folder, env=self.env, stdout=subprocess.PIPE, stderr=self.log)

    def __call__(self, *arguments) -> dict:
        process = self.start(*arguments, "--json")
        out, _ = process.communicate()
        document = json.loads(out)
        if not document["ok"]:
            raise SystemExit(f"frazil {arguments[0]}: {document}")
        return document


def kill_after(process: subprocess.Popen, seconds: float) -> bool:
    """Whether it was still at work when it was killed."""
    try:
        process.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return True


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("frazil", "work"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    for name in ("bootstrap", "topic"):
        parser.add_argument(f"--{name}", required=True)
    for name, default in (("records", 20_000), ("run-kills", 5), ("fold-kills", 3), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    print(f"seed {args.seed}", flush=True)
    chance = random.Random(args.seed)
    project = Project(args.frazil.resolve(), args.work.resolve(), args.topic)
    kafka = ("-b", args.bootstrap)

    # Spread over the time in which processes are killed, so that each of them has work.
    seconds = args.run_kills * 1.6
    rate = max(1, int(args.records / seconds))
    sent: list[dict] = []
    producing = threading.Thread(
        target=lambda: sent.append(
            project("produce", *kafka, "--topic", args.topic, "--records", args.records, "--rate", rate, "--seed", args.seed)
        )
    )
    producing.start()

    fold_chance = random.Random(args.seed + 1)
    killed_folds = [0]
    over = threading.Event()

    def kill_folds() -> None:
        while killed_folds[0] < args.fold_kills and not over.is_set():
            # Somewhere between its first listing and its commit.
            if kill_after(project.start("fold"), fold_chance.uniform(0.02, 0.35)):
                killed_folds[0] += 1
            time.sleep(fold_chance.uniform(0.1, 1.0))

    folding = threading.Thread(target=kill_folds)
    folding.start()
    killed = 0
    while killed < args.run_kills:
        batch = chance.choice([1, 7, 100, 1000, 3333, 10_000])
        run = project.start("run", *kafka, "--batch", batch, "--window-ms", chance.choice([0, 20, 200]),
                            "--pollers", chance.choice([1, 2, 3]))
        killed += kill_after(run, chance.uniform(0.3, 2.2))
    folding.join(120)
    over.set()
    producing.join()
    if not sent or killed_folds[0] < args.fold_kills:
        raise SystemExit(f"nothing was proved: sent {sent}, {killed_folds[0]} folds killed")

    # The last one reads what is left and is asked to end.
    last = project.start("run", *kafka, "--pollers", 2, "--json")
    total, found, waited = sent[0]["sent"], -1, 0
    while found < total and waited < 300:
        time.sleep(1)
        waited += 1
        counted = subprocess.run([str(project.binary), "query", "--json", "SELECT count(*) AS n FROM bigdata.employee"],
                                 cwd=project.folder, stdout=subprocess.PIPE, stderr=project.log, check=False)
        document = json.loads(counted.stdout)
        found = document["rows"][0]["n"] if document["ok"] else -1
    last.send_signal(signal.SIGTERM)
    out, _ = last.communicate(timeout=120)
    ended = json.loads(out)
    if last.returncode != 0 or not ended["ok"]:
        raise SystemExit(f"the last run ended with {last.returncode}: {ended}")

    rows = project("query", "SELECT id, _kafka_partition AS p, _kafka_offset AS o FROM bigdata.employee")["rows"]
    places = {(row["p"], row["o"]) for row in rows}
    employees = collections.Counter(row["id"] for row in rows)
    twice = sum(count == 2 for count in employees.values())
    problems = [
        what
        for what, is_wrong in (
            (f"{len(rows)} rows, {total} sent", len(rows) != total),
            (f"{len(places)} coordinates, {total} sent", len(places) != total),
            ("an employee is missing or was never sent", set(employees) != set(range(args.records))),
            (f"{twice} employees came twice, {sent[0]['repeated']} were sent twice", twice != sent[0]["repeated"]),
            ("an employee came three times", max(employees.values(), default=0) > 2),
        )
        if is_wrong
    ]
    if problems:
        raise SystemExit("; ".join(problems))
    staged = project("fold", "--dry-run")
    print(f"{total} records ({sent[0]['repeated']} of them sent twice), {killed} runs and {killed_folds[0]} folds killed: "
          f"{len(rows)} rows at as many coordinates; {staged['tables'][0]['rows_added']} rows wait")


if __name__ == "__main__":
    sys.exit(main())
