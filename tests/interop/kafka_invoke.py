"""`frazil run --invoke` and `--listen` on a real broker: a Lambda endpoint that answers right, wrong, late, in part or not at all.

kafka_invoke.py --frazil BINARY --work DIR --node DIR --jars DIR [--ingest BINARY]

NODE is where `tests/services/kafka start NODE` put a broker, which the last case kills. The endpoint stores by `frazil ingest`,
or has the built Lambda function do it over a runtime interface (`--ingest`). Whatever it answers, in the end the table holds
what another consumer reads, once, and no offset is committed beyond what was stored.
"""

import argparse
import http.server
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request

from confluent_kafka import Consumer, TopicPartition

from kafka_topics import Broker, Project, decoded, same

# Long enough for any answer on a busy machine.
PATIENCE = 120
SLOW_SECONDS = 6
PATH = "/2015-03-31/functions/ingest/invocations"
FAILURE = {"errorType": "ValueError", "errorMessage": "no\nway", "stackTrace": ["geheim"]}


class Endpoint(http.server.ThreadingHTTPServer):
    """Answers invocations as its next behaviours say, and rightly once there are none left."""

    def __init__(self, function, certificate: pathlib.Path | None = None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket, self.scheme = context.wrap_socket(self.socket, server_side=True), "https"
        self.function, self.behaviours, self.seen = function, [], []
        self.daemon_threads = True
        self.held, self.release = threading.Event(), threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """Whoever has hung up is not answered any more."""

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}{PATH}"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status: int, body: bytes, **headers) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        event = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        behaviour = server.behaviours.pop(0) if server.behaviours else "store"
        server.seen.append(behaviour)
        if self.path != PATH:
            return self.answer(404, b"{}")
        getattr(self, behaviour.replace("-", "_"))(event)

    def store(self, event):
        self.answer(200, self.server.function(event))

    def store_null(self, event):
        self.server.function(event)
        self.answer(200, b"null")

    def function_error(self, _):
        self.answer(200, json.dumps(FAILURE).encode(), X_Amz_Function_Error="Unhandled")

    def function_error_without_header(self, _):
        self.answer(200, json.dumps(FAILURE).encode())

    def error_500(self, _):
        self.answer(500, b"geheim")

    def error_404(self, _):
        self.answer(404, b"{}")

    def error_429(self, _):
        self.answer(429, b"{}")

    def redirected(self, _):
        self.answer(307, b"", Location=self.server.url)

    def accepted(self, _):
        self.answer(202, b"")

    def page(self, _):
        self.answer(200, b"<html>welcome</html>")

    def slow(self, _):
        time.sleep(SLOW_SECONDS)
        self.answer(200, b"null")

    def dropped(self, _):
        self.connection.shutdown(socket.SHUT_RDWR)

    def stored_and_dropped(self, event):
        self.server.function(event)
        self.dropped(event)

    def cut(self, event):
        self.server.function(event)
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.end_headers()
        self.wfile.write(b'{"batchItemFailures":[]')
        self.wfile.flush()
        self.dropped(event)

    def parted(self, event, least_only: bool, stranger: bool = False):
        """Stores the earlier half of every partition, and nothing of every third."""
        document = json.loads(event)
        failures, stored = [], {}
        for n, (name, records) in enumerate(sorted(document["records"].items())):
            kept = records[: 0 if n % 3 == 2 else len(records) // 2]
            if kept:
                stored[name] = kept
            left = records[len(kept) :][: 1 if least_only else None]
            failures += [{"itemIdentifier": {"partition": name, "offset": record["offset"]}} for record in reversed(left)]
        if stored:
            self.server.function(json.dumps({**document, "records": stored}).encode())
        if stranger:
            failures.append({"itemIdentifier": {"partition": failures[0]["itemIdentifier"]["partition"], "offset": 1 << 40}})
        self.answer(200, json.dumps({"batchItemFailures": failures}).encode())

    def part(self, event):
        self.parted(event, least_only=False)

    def part_by_least(self, event):
        self.parted(event, least_only=True)

    def part_with_stranger(self, event):
        self.parted(event, least_only=False, stranger=True)

    def part_unreadable(self, _):
        self.answer(200, b'{"batchItemFailures":[{"itemIdentifier":""}]}')

    def hold(self, event):
        answer = self.server.function(event)
        self.server.held.set()
        self.server.release.wait(PATIENCE)
        self.answer(200, answer)


FAILING = ("function-error", "function-error-without-header", "error-500", "error-404", "error-429", "redirected", "accepted", "page",
           "slow", "dropped", "part-unreadable")
# They store, and the mapping can't know it.
UNKNOWN = ("stored-and-dropped", "cut", "part-with-stranger")
PARTS = ("part", "part-by-least")


def by_command(project: Project):
    """The ingest function as the command line runs it."""

    def function(event: bytes) -> bytes:
        done = subprocess.run([str(project.binary), "ingest", "--event", "-", "--json"], cwd=project.folder, input=event,
                              stdout=subprocess.PIPE, stderr=project.log, check=True)
        return json.dumps(json.loads(done.stdout)["response"]).encode()

    return function


def by_runtime(binary: pathlib.Path, project: Project):
    """The built function, to which a runtime interface hands one invocation after another."""
    events, answers, one = queue.Queue(), queue.Queue(), threading.Lock()

    class Interface(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_GET(self):
            event = events.get()
            self.send_response(200)
            self.send_header("Lambda-Runtime-Aws-Request-Id", "r")
            self.send_header("Lambda-Runtime-Deadline-Ms", str(int(time.time() * 1000) + 60_000))
            self.send_header("Content-Length", str(len(event)))
            self.end_headers()
            self.wfile.write(event)

        def do_POST(self):
            answers.put((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Interface)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    identity = (project.folder / ".frazil/pipelines/notes/id").read_text().strip()
    env = {"AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{server.server_address[1]}", "AWS_LAMBDA_FUNCTION_NAME": "ingest",
           "AWS_LAMBDA_FUNCTION_VERSION": "1", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256",
           "FRAZIL_STORE": f"file://{project.folder}/.frazil", "FRAZIL_PIPELINE": f"{project.folder}/pipelines/notes.toml",
           "FRAZIL_PIPELINE_ID": identity}
    process = subprocess.Popen([str(binary)], env=env, stdout=project.log, stderr=project.log)

    def function(event: bytes) -> bytes:
        with one:
            events.put(event)
            path, answer = answers.get(timeout=PATIENCE)
        if not path.endswith("/response"):
            raise RuntimeError(f"the function failed: {answer}")
        return answer

    return process, function


def committed(broker: Broker, group: str, topic: str, partitions: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    found = consumer.committed([TopicPartition(topic, n) for n in range(partitions)], 20)
    consumer.close()
    return [max(0, place.offset) for place in found]


def running(broker: Broker, project: Project, *arguments) -> subprocess.Popen:
    return project.start("run", "-b", broker.bootstrap, *arguments)


def ended(process: subprocess.Popen) -> dict:
    out, _ = process.communicate(timeout=PATIENCE)
    document = json.loads(out)
    if process.returncode != 0 or not document["ok"]:
        raise SystemExit(f"run ended with {process.returncode}: {document}")
    return document


def until(what: str, happened) -> None:
    for _ in range(PATIENCE * 10):
        if happened():
            return
        time.sleep(0.1)
    raise SystemExit(f"in vain was waited for: {what}")


def answers(broker: Broker, project: Project, topic: str, _) -> None:
    broker.topic(topic, 4)
    broker.send(topic, range(1, 1201), 4)
    endpoint = Endpoint(by_command(project))
    # Each failure is followed by something else, and no event fails for so long that waits grow.
    endpoint.behaviours = [b for failing in FAILING + UNKNOWN + PARTS for b in (failing, "store-null", "store")]
    wanted = len(endpoint.behaviours)
    said = project.run("--invoke", endpoint.url, "--invoke-timeout", f"{SLOW_SECONDS - 2}s", "--partial-answers", "--batch", 20)
    same("behaviours that were met", [len(endpoint.behaviours)], [0])
    same("invocations that failed", [said["failed_invocations"]], [len(FAILING + UNKNOWN + PARTS)])
    same("records acknowledged", [said["records"], len(endpoint.seen) >= wanted], [1200, True])
    everything = {at: decoded(value) for at, value in broker.read(topic, 4).items()}
    same("rows behind an endpoint that fails in every way", project.rows(), everything)
    project.accounted()
    log = (project.folder / "log").read_text()
    if "geheim" in log or "ValueError: no way" not in log:
        raise SystemExit("a function's failure is not said in one line, or more of it is")


def never(broker: Broker, project: Project, topic: str, _) -> None:
    """Whatever fails is never acknowledged."""
    broker.topic(topic, 2)
    broker.send(topic, range(1, 41), 2)
    endpoint = Endpoint(lambda _: b"null")
    for behaviour in (*FAILING, "dropped", "part", "refused"):
        url = "http://127.0.0.1:1" + PATH if behaviour == "refused" else endpoint.url
        endpoint.behaviours, endpoint.seen = [behaviour] * 1000, []
        group = f"never-{behaviour}"
        # `part` without --partial-answers is no answer that may be taken.
        process = running(broker, project, "--invoke", url, "--invoke-timeout", "1s", "--command-property", f"group.id={group}")
        log = project.folder / "log"
        size = log.stat().st_size
        until(f"a failure by {behaviour}", lambda: "WARN" in log.read_text()[size:])
        process.send_signal(signal.SIGTERM)
        same(f"records acknowledged after {behaviour}", [ended(process)["records"], committed(broker, group, topic, 2)], [0, [0, 0]])
    endpoint.behaviours = []
    said = project.run("--invoke", endpoint.url, "--command-property", "group.id=elsewhere")
    same("a function that stores elsewhere is said", [said["records"], "nothing is staged here" in log.read_text()], [40, True])


def parts(broker: Broker, project: Project, topic: str, _) -> None:
    """What an answer leaves is all that comes again, and as far as it stored is committed."""
    broker.topic(topic, 3)
    broker.send(topic, range(0, 300), 3)
    endpoint = Endpoint(by_command(project))
    endpoint.behaviours = ["part", "hold"]
    (project.folder / "frazil.toml").write_text('[env.local]\ndir = ".frazil"\nmapping = { partial_answers = true, pollers = [1, 2] }\n')
    process = running(broker, project, "--invoke", endpoint.url, "--batch", 300, "--window-ms", 3000,
                      "--command-property", "group.id=parts")
    until("the second invocation", endpoint.held.is_set)
    # Half of two partitions is stored; the third has waited.
    until("commits", lambda: committed(broker, "parts", topic, 3) == [50, 50, 0])
    endpoint.release.set()
    until("commits", lambda: committed(broker, "parts", topic, 3) == [100, 100, 100])
    process.send_signal(signal.SIGTERM)
    said = ended(process)
    same("records, invocations and failures of a partial answer",
         [said["records"], said["invocations"], said["failed_invocations"]], [300, 2, 1])
    same("rows of it", project.rows(), {at: decoded(value) for at, value in broker.read(topic, 3).items()})


def function(broker: Broker, project: Project, topic: str, ingest: pathlib.Path | None) -> None:
    if ingest is None:
        print("the built function was not given, and is not asked", flush=True)
        return
    broker.topic(topic, 3)
    broker.send(topic, range(1, 3001), 3)
    # Its first run gives the pipeline its id.
    project("backfill", "-b", broker.bootstrap, "--from", "0:0", "--to", "0:10")
    process, invoke = by_runtime(ingest, project)
    endpoint = Endpoint(invoke)
    endpoint.behaviours = ["store", "dropped", "stored-and-dropped"]
    try:
        project.run("--invoke", endpoint.url, "--batch", 500)
    finally:
        process.kill()
        process.wait()
    same("rows of the built Lambda function", project.rows(), {at: decoded(value) for at, value in broker.read(topic, 3).items()})
    project.accounted()


def encrypted(broker: Broker, project: Project, topic: str, _) -> None:
    """By TLS, with a certificate that is trusted and, before that, is not."""
    if shutil.which("openssl") is None:
        print("there is no openssl, and no certificate", flush=True)
        return
    pem, key = project.folder / "endpoint.pem", project.folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=endpoint", "-keyout", key,
                    "-out", pem, "-addext", "basicConstraints=critical,CA:FALSE", "-addext", "subjectAltName=IP:127.0.0.1"],
                   check=True, stderr=subprocess.DEVNULL)
    pem.write_text(pem.read_text() + key.read_text())
    broker.topic(topic, 2)
    broker.send(topic, range(1, 101), 2)
    endpoint = Endpoint(by_command(project), pem)
    log = project.folder / "log"
    process = running(broker, project, "--invoke", endpoint.url)
    until("a certificate that is refused", lambda: "invalid peer certificate" in log.read_text())
    process.send_signal(signal.SIGTERM)
    same("records acknowledged by nobody that is trusted", [ended(process)["records"], endpoint.seen], [0, []])
    os.environ["SSL_CERT_FILE"] = str(pem)
    said = project.run("--invoke", endpoint.url)
    del os.environ["SSL_CERT_FILE"]
    same("records by TLS", [said["records"], len(project.rows()), said["failed_invocations"]], [100, 100, 0])


def asked(url: str) -> tuple[int, dict]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def listening(project: Project, size: int = 0) -> str:
    log = project.folder / "log"
    until("an address", lambda: re.search(r"http://(\S+)/ready", log.read_text()[size:]))
    return re.search(r"http://\S+(?=/ready)", log.read_text()[size:]).group()


def readiness(broker: Broker, project: Project, topic: str, _) -> None:
    broker.topic(topic, 3)
    endpoint = Endpoint(by_command(project))
    process = running(broker, project, "--listen", "127.0.0.1:0", "--invoke", endpoint.url, "--pollers", 2, "--batch", 10)
    url = listening(project)
    until("that it is ready without a record", lambda: asked(f"{url}/ready") == (200, {"ready": True}))
    same("it lives, and knows nothing else", [asked(f"{url}/live"), asked(f"{url}/x")[0]], [(200, {"live": True}), 404])
    project("pause", "--stage", "ingest")
    broker.send(topic, range(1, 31), 3)
    until("that a pause is said", lambda: "pause" in asked(f"{url}/ready")[1].get("why", ""))
    project("unpause")
    until("the end of the pause", lambda: asked(f"{url}/ready")[0] == 200)
    endpoint.behaviours = ["error-500"] * 3
    broker.send(topic, range(31, 34), 3)
    until("that a failing function is said", lambda: "status 500" in asked(f"{url}/ready")[1].get("why", ""))
    until("that it works again", lambda: asked(f"{url}/ready")[0] == 200)
    endpoint.behaviours = ["hold"]
    broker.send(topic, range(34, 37), 3)
    until("an event under way", endpoint.held.is_set)
    process.send_signal(signal.SIGTERM)
    until("that it says it ends", lambda: asked(f"{url}/ready") == (503, {"ready": False, "why": "it was told to end"}))
    same("it lives until it has ended", [asked(f"{url}/live")[0], process.poll()], [200, None])
    endpoint.release.set()
    ended(process)
    same("rows", project.rows(), {at: decoded(value) for at, value in broker.read(topic, 3).items()})


def away(broker: Broker, project: Project, topic: str, _) -> None:
    """The broker dies while an event is under way: what is stored can't be committed, and one SIGTERM ends it all the same."""
    broker.topic(topic, 2)
    broker.send(topic, range(1, 21), 2)
    endpoint = Endpoint(by_command(project))
    endpoint.behaviours = ["hold"]
    process = running(broker, project, "--listen", "127.0.0.1:0", "--invoke", endpoint.url, "--command-property", "request.timeout.ms=5000")
    url = listening(project)
    until("an event under way", endpoint.held.is_set)
    os.kill(broker.pid, signal.SIGKILL)
    endpoint.release.set()
    until("that the broker is missed", lambda: "no broker of" in asked(f"{url}/ready")[1].get("why", ""))
    begun = time.time()
    process.send_signal(signal.SIGTERM)
    said = ended(process)
    print(f"ended {time.time() - begun:.0f} s after the signal", flush=True)
    same("records stored without a broker", [said["records"], len(project.rows())], [20, 20])
    size = (project.folder / "log").stat().st_size
    process = running(broker, project, "--listen", "127.0.0.1:0")
    url = listening(project, size)
    same("it says that it is only starting", [asked(f"{url}/ready")], [(503, {"ready": False, "why": "it is only starting"})])
    process.kill()
    process.wait()


CASES = (answers, never, parts, function, encrypted, readiness, away)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("frazil", "work", "jars", "node"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--ingest", type=pathlib.Path)
    parser.add_argument("--only", choices=[case.__name__ for case in CASES])
    args = parser.parse_args()
    broker = Broker((args.node / "bootstrap").read_text().strip(), args.jars.resolve(), args.work.resolve())
    broker.pid = int((args.node / "pid").read_text())
    for case in CASES:
        if args.only in (None, case.__name__):
            print(f"-- {case.__name__}", flush=True)
            topic = f"invoke-{case.__name__}"
            project = Project(args.frazil.resolve(), broker, args.work.resolve() / topic, topic)
            case(broker, project, topic, args.ingest and args.ingest.resolve())


if __name__ == "__main__":
    main()
