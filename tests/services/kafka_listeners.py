#!/usr/bin/env python3
"""Every kind of listener that Kafka clients meet, for `kafka start DIR LISTENERS`.

kafka_listeners.py DIR PORT CONTROLLER_PORT

Makes keys and certificates under DIR/keys and the class that checks bearer tokens under DIR/classes, once; chooses free
ports, and prints the lines that follow in the node's properties. DIR/listeners.json says which listener is where, and
DIR/users holds what the node is formatted with. Nothing made here is worth anything outside of a test.
"""

import datetime
import ipaddress
import json
import os
import pathlib
import socket
import subprocess
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

HERE = pathlib.Path(__file__).resolve().parent

# Of key stores and of users.
STORE_PASSWORD = "store-geheim-1"
USER, PASSWORD = "ann", "pass=wort;geheim-2"

# Name, security protocol, certificate, SASL mechanisms.
LISTENERS = [
    ("TLS", "SSL", "server", []),
    ("MTLS", "SSL", "server", []),
    ("EXPIRED", "SSL", "expired", []),
    ("STRANGER", "SSL", "stranger", []),
    ("PLAIN", "SASL_PLAINTEXT", None, ["PLAIN"]),
    ("PLAINTLS", "SASL_SSL", "server", ["PLAIN"]),
    ("SCRAM", "SASL_PLAINTEXT", None, ["SCRAM-SHA-256", "SCRAM-SHA-512"]),
    ("SCRAMTLS", "SASL_SSL", "server", ["SCRAM-SHA-256", "SCRAM-SHA-512"]),
    ("BEARER", "SASL_SSL", "server", ["OAUTHBEARER"]),
]

PACKAGE = "org.apache.kafka.common.security"


class Authority:
    """Signs certificates; the node and its clients trust one of two."""

    def __init__(self, name: str):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self.name, self.key.public_key(), 3650, None)

    def _sign(self, name, key, days: int, host: str | None) -> x509.Certificate:
        now = datetime.datetime.now(datetime.timezone.utc)
        ends = now + datetime.timedelta(days=days)
        builder = (
            x509.CertificateBuilder().subject_name(name).issuer_name(self.name).public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, ends) - datetime.timedelta(days=2)).not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
        )
        if host is not None:
            # An address and no name, so that `localhost` is somebody else.
            names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def certify(self, folder: pathlib.Path, name: str, days: int) -> None:
        """`NAME.pem` with key and chain as Java's PEM stores have it, and `NAME.p12`."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key.public_key(), days, "127.0.0.1")
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        chain = [c.public_bytes(serialization.Encoding.PEM) for c in (certificate, self.certificate)]
        (folder / f"{name}.pem").write_bytes(private + b"".join(chain))
        encrypted = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
        (folder / f"{name}.p12").write_bytes(
            pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, [self.certificate], encrypted)
        )


def make_keys(folder: pathlib.Path) -> None:
    folder.mkdir()
    ours, others = Authority("frazil tests"), Authority("somebody else")
    for name, authority, days in [
        ("server", ours, 30), ("expired", ours, -1), ("stranger", others, 30),
        ("client", ours, 30), ("expired-client", ours, -1), ("stranger-client", others, 30),
    ]:
        authority.certify(folder, name, days)
    (folder / "ca.pem").write_bytes(ours.certificate.public_bytes(serialization.Encoding.PEM))
    trust = pkcs12.serialize_java_truststore(
        [pkcs12.PKCS12Certificate(ours.certificate, b"ca")],
        serialization.BestAvailableEncryption(STORE_PASSWORD.encode()),
    )
    (folder / "trust.p12").write_bytes(trust)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def lines(folder: pathlib.Path, port: str, controller: str, ports: dict[str, int]):
    keys = folder / "keys"
    known = [("PLAINTEXT", port), *ports.items()]
    addresses = [f"{name}://127.0.0.1:{at}" for name, at in known]
    yield "listeners", ",".join([*addresses, f"CONTROLLER://127.0.0.1:{controller}"])
    yield "advertised.listeners", ",".join(addresses)
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"} | {n: p for n, p, _, _ in LISTENERS}
    yield "listener.security.protocol.map", ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())
    yield "inter.broker.listener.name", "PLAINTEXT"
    for name, _, certificate, mechanisms in LISTENERS:
        of = f"listener.name.{name.lower()}"
        if certificate:
            yield f"{of}.ssl.keystore.type", "PEM"
            yield f"{of}.ssl.keystore.location", keys / f"{certificate}.pem"
            yield f"{of}.ssl.truststore.type", "PEM"
            yield f"{of}.ssl.truststore.location", keys / "ca.pem"
            yield f"{of}.ssl.client.auth", "required" if name == "MTLS" else "none"
        if mechanisms:
            yield f"{of}.sasl.enabled.mechanisms", ",".join(mechanisms)
        for mechanism in mechanisms:
            entry = {
                "PLAIN": f'{PACKAGE}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
                "OAUTHBEARER": f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required;",
            }.get(mechanism, f"{PACKAGE}.scram.ScramLoginModule required;")
            yield f"{of}.{mechanism.lower()}.sasl.jaas.config", entry
    bearer = "listener.name.bearer.oauthbearer"
    yield f"{bearer}.sasl.server.callback.handler.class", "BearerCheck"
    # A connection must say anew who it is before so many milliseconds are over: with a token that still holds.
    yield f"{bearer}.connections.max.reauth.ms", 3000


def main() -> None:
    folder, port, controller = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3]
    if not (folder / "keys").exists():
        make_keys(folder / "keys")
        users = [f"{mechanism}=[name={USER},password={PASSWORD}]" for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
        (folder / "users").write_text("".join(f"{user}\n" for user in users))
        jars = f"{os.environ['KAFKA_JARS']}/*"
        subprocess.run(["javac", "-cp", jars, "-d", folder / "classes", HERE / "BearerCheck.java"], check=True)
    ports = dict(zip([name for name, *_ in LISTENERS], free_ports(len(LISTENERS))))
    (folder / "listeners.json").write_text(json.dumps(ports | {"PLAINTEXT": int(port)}))
    for key, value in lines(folder, port, controller, ports):
        print(f"{key}={value}")


if __name__ == "__main__":
    main()
