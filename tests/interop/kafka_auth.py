"""Every way in which Kafka clients say who they are, on a real broker's listeners.

kafka_auth.py --frazil BINARY --work DIR --node DIR --jars DIR

NODE is where `tests/services/kafka start NODE listeners` put a broker. For each way one `client.properties` is written as
Kafka documents it: Kafka's own tool makes a topic with it, `frazil produce` fills the topic with it, and `frazil run`
brings it to a table with it. Logins by IAM are seen on a listener that takes bearer tokens: botocore signs anew what each
token is the signature of, and credentials that soon run out show that tokens are renewed. Then everything that people get
wrong, which has to end with one line, a remedy and the right exit code.
"""

import argparse
import base64
import concurrent.futures
import datetime
import http.server
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

import botocore.auth
import botocore.awsrequest
import botocore.credentials

from kafka_run import Project

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "services"))
from kafka_listeners import PASSWORD, STORE_PASSWORD, USER  # noqa: E402

RECORDS = 2000
# Long enough for any answer on a busy machine: a command that takes longer hangs.
PATIENCE = 600

KEY, SECRET = "AKIDKNOWNPRODUCE", "iam-geheim-3/+"
RUN_KEY, ROLE_KEY, PROFILE_KEY = "AKIDKNOWNRUN", "AKIDKNOWNROLE", "AKIDPROFILE"
ROLE = "arn:aws:iam::123456789012:role/reader"
IAM = """\
security.protocol=SASL_SSL
sasl.mechanism=AWS_MSK_IAM
sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;
sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler
"""
# The same login as Java's clients have it where they carry a bearer token themselves.
IAM_ROLE = f"""\
security.protocol=SASL_SSL
sasl.mechanism=OAUTHBEARER
sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required awsProfileName="dev" \\
  awsRoleArn="{ROLE}" awsRoleSessionName="night" awsStsRegion="us-east-1";
sasl.login.callback.handler.class=software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler
sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler
"""
# A token that says by itself who it is.
UNSECURED = """\
sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="ann";
"""


def login(module: str, password: str = PASSWORD) -> str:
    package = "org.apache.kafka.common.security"
    return f'sasl.jaas.config={package}.{module} required username="{USER}" password="{password}";\n'


class Ways:
    """Client settings by name: the listener they are for, and the file's text."""

    def __init__(self, keys: pathlib.Path):
        trust = f"ssl.truststore.type=PEM\nssl.truststore.location={keys / 'ca.pem'}\n"
        pkcs12 = f"ssl.keystore.type=PKCS12\nssl.keystore.password={STORE_PASSWORD}\nssl.keystore.location={keys}"
        ssl = f"security.protocol=SSL\n{trust}"

        def sasl(protocol: str, mechanism: str, password: str = PASSWORD) -> str:
            module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
            told = trust if protocol == "SASL_SSL" else ""
            return f"security.protocol={protocol}\nsasl.mechanism={mechanism}\n{told}{login(module, password)}"

        self.good = {
            "tls": ("TLS", ssl),
            "mtls-pem": ("MTLS", f"{ssl}ssl.keystore.type=PEM\nssl.keystore.location={keys / 'client.pem'}\n"),
            "mtls-pkcs12": ("MTLS", f"{ssl}{pkcs12}/client.p12\n"),
            "plain": ("PLAIN", sasl("SASL_PLAINTEXT", "PLAIN")),
            "plain-tls": ("PLAINTLS", sasl("SASL_SSL", "PLAIN")),
            "scram-256": ("SCRAM", sasl("SASL_PLAINTEXT", "SCRAM-SHA-256")),
            "scram-512": ("SCRAM", sasl("SASL_PLAINTEXT", "SCRAM-SHA-512")),
            "scram-256-tls": ("SCRAMTLS", sasl("SASL_SSL", "SCRAM-SHA-256")),
            "scram-512-tls": ("SCRAMTLS", sasl("SASL_SSL", "SCRAM-SHA-512")),
        }
        self.iam, self.iam_role = f"{IAM}{trust}", f"{IAM_ROLE}{trust}"
        wrong, settings = "kafka.refused", "kafka.settings"
        # Name: listener or address, file, exit code, error's code, what the line or its remedy has to say.
        self.bad = {
            "broker-down": ("127.0.0.1:{closed}", "", 4, "kafka.unreachable", ["127.0.0.1:{closed}", "-b"]),
            "no-such-host": ("no.such.host.invalid:9092", "", 4, "kafka.unreachable", ["no.such.host.invalid"]),
            "no-topic": ("PLAINTEXT", "", 2, "kafka.no_topic", ["no-topic"]),
            "wrong-password-plain": ("PLAIN", sasl("SASL_PLAINTEXT", "PLAIN", "falsch"), 2, wrong, ["password"]),
            "wrong-password-256": ("SCRAM", sasl("SASL_PLAINTEXT", "SCRAM-SHA-256", "falsch"), 2, wrong, ["password"]),
            "wrong-password-512": ("SCRAMTLS", sasl("SASL_SSL", "SCRAM-SHA-512", "falsch"), 2, wrong, ["password"]),
            "other-mechanism": ("PLAIN", sasl("SASL_PLAINTEXT", "SCRAM-SHA-256"), 2, wrong, ["mechanism"]),
            "expired-certificate": ("EXPIRED", ssl, 2, wrong, ["certificate", "until when"]),
            "unknown-authority": ("STRANGER", ssl, 2, wrong, ["certificate", "who signed"]),
            "no-authority": ("TLS", "security.protocol=SSL\n", 2, wrong, ["certificate", "who signed"]),
            "other-host": ("localhost:{TLS}", ssl, 2, wrong, ["certificate", "whom they name"]),
            "no-client-certificate": ("MTLS", ssl, 2, wrong, ["certificate"]),
            "expired-client": ("MTLS", f"{ssl}{pkcs12}/expired-client.p12\n", 2, wrong, ["certificate"]),
            "stranger-client": ("MTLS", f"{ssl}{pkcs12}/stranger-client.p12\n", 2, wrong, ["certificate"]),
            "plaintext-to-tls": ("TLS", "", 2, wrong, ["security.protocol"]),
            "tls-to-plaintext": ("PLAINTEXT", ssl, 2, wrong, ["security.protocol"]),
            "no-login": ("PLAIN", "", 2, wrong, ["security.protocol"]),
            "jks": ("TLS", "security.protocol=SSL\nssl.truststore.location=/a/trust.jks\n", 2, settings,
                    ["client.properties:2", "JKS", "keytool -list -rfc -keystore '/a/trust.jks'"]),
            "no-authority-file": ("TLS", ssl.replace("ca.pem", "gone.pem"), 2, settings, ["ssl.ca.location", "gone.pem"]),
            "wrong-store-password": ("MTLS", f"{ssl}{pkcs12}/client.p12\n".replace(STORE_PASSWORD, "falsch"), 2, settings,
                                     ["ssl.keystore"]),
            "bearer": ("BEARER", f"security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n{trust}{UNSECURED}", 2, settings,
                       ["client.properties:2", "OAUTHBEARER", "AWS_MSK_IAM"]),
            "iam-no-region": ("BEARER", self.iam, 2, "aws.settings", ["region", "AWS_REGION"]),
            "iam-no-credentials": ("BEARER", self.iam, 2, "aws.settings", ["credentials", "AWS_PROFILE"]),
            "iam-no-profile": ("BEARER", self.iam.replace("required", 'required awsProfileName="gone"'), 2, "aws.settings",
                               ["profile", "gone"]),
            "iam-refused": ("BEARER", self.iam, 2, wrong, []),
            # The region is in the name: what is missing is the host.
            "iam-region-by-name": ("b-1.demo.a1b2c3.c2.kafka.eu-west-1.amazonaws.com.invalid:9098", self.iam, 4,
                                   "kafka.unreachable", ["eu-west-1"]),
        }


class Credentials(http.server.ThreadingHTTPServer):
    """Gives out credentials of ten seconds, as a container's agent does, and those of a role, as STS does."""

    def __init__(self):
        self.given: dict[str, botocore.credentials.Credentials] = {}
        self.asked: list[tuple[str, dict]] = []
        super().__init__(("127.0.0.1", 0), self.Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def give(self, holder: str, seconds: int) -> dict[str, str]:
        number = len(self.given)
        key, secret, token = f"{holder}{number}", f"{SECRET}{number}", f"session+geheim/{number}=="
        self.given[key] = botocore.credentials.Credentials(key, secret, token)
        ends = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
        return {"AccessKeyId": key, "SecretAccessKey": secret, "Token": token, "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ")}

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer("application/json", json.dumps(self.server.give(RUN_KEY, 10)))

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.server.asked.append((self.headers["Authorization"], dict(urllib.parse.parse_qsl(body))))
            given = self.server.give(ROLE_KEY, 900)
            given["SessionToken"] = given.pop("Token")
            members = "".join(f"<{name}>{value}</{name}>" for name, value in given.items())
            user = f"<AssumedRoleUser><Arn>{ROLE}</Arn><AssumedRoleId>AROA:night</AssumedRoleId></AssumedRoleUser>"
            result = f"<AssumeRoleResult>{user}<Credentials>{members}</Credentials></AssumeRoleResult>"
            space = "https://sts.amazonaws.com/doc/2011-06-15/"
            self.answer("text/xml", f'<AssumeRoleResponse xmlns="{space}">{result}</AssumeRoleResponse>')

        def answer(self, kind: str, body: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass


def signed_anew(url: str, credentials: botocore.credentials.Credentials) -> str:
    """The signature that botocore gives the request of a token."""
    query = dict(urllib.parse.parse_qsl(url.split("?", 1)[1]))
    at = datetime.datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ")
    region = query["X-Amz-Credential"].split("/")[2]
    request = botocore.awsrequest.AWSRequest(
        "GET", f"https://kafka.{region}.amazonaws.com/", params={"Action": "kafka-cluster:Connect"}
    )
    botocore.auth.get_current_datetime = lambda *_, **__: at
    botocore.auth.SigV4QueryAuth(credentials, "kafka-cluster", region, expires=900).add_auth(request)
    return dict(urllib.parse.parse_qsl(request.url.split("?", 1)[1]))["X-Amz-Signature"]


class Auth:
    def __init__(self, frazil: pathlib.Path, work: pathlib.Path, node: pathlib.Path, jars: pathlib.Path):
        self.frazil, self.work, self.node, self.jars = frazil, work, node, jars
        self.ports = json.loads((node / "listeners.json").read_text())
        self.ways = Ways(node / "keys")
        # Nothing of this machine's AWS settings.
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "FRAZIL_"))} | {
            "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }

    def kafka(self, tool: str, *arguments) -> str:
        """Runs one of Kafka's own tools."""
        log = f"-Dlog4j2.configurationFile={self.node / 'log4j2.properties'}"
        command = ["java", "-Xmx128m", "-cp", f"{self.jars}/*", log, f"org.apache.kafka.tools.{tool}", *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False)
        if done.returncode:
            raise SystemExit(f"Kafka's {tool} {arguments}: {done.stdout}")
        return done.stdout

    def project(self, name: str, text: str, env: dict | None = None) -> Project:
        project = Project(self.frazil, self.work / name, name, self.env | (env or {}))
        (project.folder / "client.properties").write_text(text)
        return project

    def through(self, name: str, listener: str, text: str) -> str:
        """One file for Kafka's own tool and for both commands; every record arrives, and no secret is said."""
        project = self.project(name, text)
        where = ("--command-config", project.folder / "client.properties", "--bootstrap-server", f"127.0.0.1:{self.ports[listener]}")
        self.kafka("TopicCommand", *where, "--create", "--topic", name, "--partitions", 2)
        where = ("--command-config", "client.properties", *where[2:])
        sent = project("produce", *where, "--topic", name, "--records", RECORDS, "-vv")["sent"]
        ran = project("run", *where, "--idle-seconds", 5, "-vv")
        if not (sent >= RECORDS and ran["records"] == sent == ran["rows_in_table"]):
            raise SystemExit(f"{name}: {sent} records sent, and {ran}")
        self.silent(project, [PASSWORD, STORE_PASSWORD])
        return f"{name}: {sent} records there and back"

    def silent(self, project: Project, secrets: list[str]) -> None:
        said = (project.folder / "log").read_text(errors="replace")
        for secret in secrets:
            if secret in said:
                raise SystemExit(f"{project.folder}: a secret is in the log")

    def iam(self) -> list[str]:
        name, agent = "iam", Credentials()
        fixed = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}
        renewed = {"AWS_REGION": "eu-west-1",
                   "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{agent.server_port}/"}
        where = ("--command-config", "client.properties", "-b", f"127.0.0.1:{self.ports['BEARER']}")
        self.kafka("TopicCommand", "--bootstrap-server", f"127.0.0.1:{self.ports['PLAINTEXT']}",
                   "--create", "--topic", name, "--partitions", 2)
        project = self.project(name, self.ways.iam, fixed)
        produce = ("produce", *where, "--topic", name, "--records", RECORDS, "-vv")
        sent = project(*produce)["sent"]
        project.env = self.env | renewed
        run = project.start("run", *where, "--idle-seconds", 20, "-vv", "--json")
        project.env = self.env | fixed
        # Until the run has logged in with its third token, each of them after the last had run out.
        waited = 0
        while len(self.tokens(RUN_KEY)) < 3 and waited < PATIENCE and run.poll() is None:
            time.sleep(1)
            waited += 1
        sent += project(*produce, "--seed", 2)["sent"]
        out, _ = run.communicate(timeout=PATIENCE)
        ran = json.loads(out)
        if not (ran["ok"] and ran["records"] == sent == ran["rows_in_table"]):
            raise SystemExit(f"{name}: {sent} records sent, and {ran}")
        as_role = self.as_role(name, agent, where)
        tokens = self.tokens("")
        credentials = agent.given | {KEY: botocore.credentials.Credentials(KEY, SECRET)}
        for token, url in tokens.items():
            query = dict(urllib.parse.parse_qsl(url.split("?", 1)[1]))
            holder = credentials[query["X-Amz-Credential"].split("/")[0]]
            wanted = signed_anew(url, holder)
            other = signed_anew(url, botocore.credentials.Credentials(holder.access_key, "another", holder.token))
            if query["X-Amz-Signature"] != wanted or wanted == other:
                raise SystemExit(f"{url}: botocore signs it {wanted}")
        of_run = self.tokens(RUN_KEY)
        if len(of_run) < 3:
            raise SystemExit(f"{name}: the run used {len(of_run)} tokens, and should have renewed them")
        secrets = [SECRET, "session+geheim", *tokens, *(url.split("X-Amz-Signature=")[1][:64] for url in tokens.values())]
        if "a token for MSK was made" not in (project.folder / "log").read_text():
            raise SystemExit(f"{name}: nothing is logged of tokens, and no secret could be")
        self.silent(project, secrets)
        agent.shutdown()
        return [
            f"{name}: {sent} records there and back, and {as_role} sent as a role that a profile assumed",
            f"{name}: {len(of_run)} tokens of one run, each as the last ran out; all {len(tokens)} as botocore signs them",
        ]

    def as_role(self, topic: str, agent: Credentials, where: tuple) -> int:
        """A role that is assumed by a profile, though the environment holds keys of somebody else."""
        profile = self.work / "credentials"
        profile.write_text(f"[dev]\naws_access_key_id = {PROFILE_KEY}\naws_secret_access_key = {SECRET}\n")
        env = {"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKIDOTHER", "AWS_SECRET_ACCESS_KEY": "another",
               "AWS_SHARED_CREDENTIALS_FILE": str(profile), "AWS_ENDPOINT_URL_STS": f"http://127.0.0.1:{agent.server_port}"}
        project = self.project("iam-role", self.ways.iam_role, env)
        sent = project("produce", *where, "--topic", topic, "--records", RECORDS, "--seed", 3, "-vv")["sent"]
        for signed, asked in agent.asked:
            if f"Credential={PROFILE_KEY}/" not in signed or "/us-east-1/sts/" not in signed:
                raise SystemExit(f"STS was asked by somebody else: {signed}")
            if (asked["Action"], asked["RoleArn"], asked["RoleSessionName"]) != ("AssumeRole", ROLE, "night"):
                raise SystemExit(f"STS was asked for something else: {asked}")
        if not agent.asked or not self.tokens(ROLE_KEY):
            raise SystemExit("nobody logged in as the role")
        self.silent(project, [SECRET, "session+geheim", *self.tokens("")])
        return sent

    def tokens(self, key: str) -> dict[str, str]:
        """The tokens that the broker took from holders of this access key, and their URLs."""
        file = self.node / "tokens"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        urls = {token: base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode() for token in lines}
        return {token: url for token, url in urls.items() if f"X-Amz-Credential={key}" in url}

    def wrong(self, name: str, command: str) -> str:
        """One thing that is wrong, and how it is said."""
        where, text, exit_code, code, words = self.ways.bad[name]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            fill = self.ports | {"closed": free.getsockname()[1]}
        if where in self.ports:
            where = f"127.0.0.1:{self.ports[where]}"
        env = {"AWS_REGION": "eu-west-1"} if name in ("iam-no-credentials", "iam-no-profile", "iam-refused") else {}
        if name in ("iam-refused", "iam-no-region", "iam-region-by-name"):
            env |= {"AWS_ACCESS_KEY_ID": "AKIDOTHER", "AWS_SECRET_ACCESS_KEY": SECRET}
        project = self.project(f"bad-{name}-{command}", text, env)
        if name != "no-topic":
            text = project.folder / "pipelines" / "employee.toml"
            text.write_text(text.read_text().replace(f"bad-{name}-{command}", "any"))
        topic = ("--topic", project.folder.name if name == "no-topic" else "any") if command == "produce" else ()
        arguments = (command, "--command-config", "client.properties", "-b", where.format(**fill), *topic)
        process = project.start(*arguments, "--json", "-vv")
        try:
            out, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            raise SystemExit(f"{name}: frazil {command} hangs") from None
        answer = json.loads(out)
        error = answer.get("error", {})
        said = f"{error.get('message')}; {error.get('remedy')}"
        missing = [word for word in (w.format(**fill) for w in words) if word not in said]
        if answer["ok"] or process.returncode != exit_code or error["code"] != code or "\n" in said or not error["remedy"] or missing:
            raise SystemExit(f"{name}: frazil {command} exits with {process.returncode}, lacks {missing}: {answer}")
        self.silent(project, [PASSWORD, STORE_PASSWORD, "falsch", SECRET])
        if any(secret in out.decode() for secret in (PASSWORD, STORE_PASSWORD, "falsch", SECRET)):
            raise SystemExit(f"{name}: a secret is in the answer")
        return f"{name} ({command}, {process.returncode}): {said}"

    def converted(self) -> None:
        """The command that a refused trust store comes with makes one that works."""
        pem = self.work / "converted.pem"
        store = self.node / "keys" / "trust.p12"
        command = ["keytool", "-list", "-rfc", "-keystore", store, "-storepass", STORE_PASSWORD]
        pem.write_bytes(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        listener, text = self.ways.good["tls"]
        self.ways.good["tls-converted"] = (listener, text.replace(str(self.node / "keys" / "ca.pem"), str(pem)))


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("frazil", "work", "node", "jars"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    args = parser.parse_args()
    auth = Auth(args.frazil.resolve(), args.work.resolve(), args.node.resolve(), args.jars.resolve())
    auth.work.mkdir(parents=True, exist_ok=True)
    auth.converted()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        work = [pool.submit(auth.iam)]
        work += [pool.submit(auth.through, name, *way) for name, way in auth.ways.good.items()]
        work += [pool.submit(auth.wrong, name, command) for name in auth.ways.bad for command in ("produce", "run")]
        failed = []
        for each in concurrent.futures.as_completed(work):
            try:
                said = each.result()
            except (SystemExit, Exception) as error:  # All of them are said, not the first alone.
                failed.append(f"{type(error).__name__}: {error}")
                said = f"FAILED {failed[-1]}"
            print(*([said] if isinstance(said, str) else said), sep="\n", flush=True)
    if failed:
        raise SystemExit(f"{len(failed)} of {len(work)} failed")


if __name__ == "__main__":
    main()
