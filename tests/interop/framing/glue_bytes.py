"""Values by AWS's serializer for the Glue Schema Registry and single objects by Avro's library, as a golden file.

glue_bytes.py --jars DIR --protoc "PYTHON -m grpc_tools.protoc" --work DIR [--write]

DIR holds the jars of pom.xml. Run by the Python that has moto: the serializer registers its schemas there. Without --write
the values are compared with the golden file's: ids are new every time, and compressed bytes may differ between JDKs, but
nothing else may.
"""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time
import zlib

import boto3

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE.parent.parent / "golden/framing/glue.json"
WRITTEN_BY = ["software.amazon.glue:schema-registry-serde 1.1.27", "org.apache.avro:avro 1.11.4"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jars", required=True)
    parser.add_argument("--protoc", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--write", action="store_true")
    return parser.parse_args()


def written(args: argparse.Namespace, endpoint: str) -> dict:
    """What the program writes, with the texts of the schemas as the registry returns them."""
    classpath = f"{args.jars}/*:{args.work}"
    descriptors = args.work / "shop.desc"
    subprocess.run(["javac", "-cp", classpath, "-d", args.work, HERE / "GlueBytes.java"], check=True)
    protoc = [*shlex.split(args.protoc), "-I", HERE, "--include_imports", "-o", descriptors, "shop.proto"]
    subprocess.run(protoc, check=True)
    java = ["java", "-cp", classpath, "GlueBytes", endpoint, descriptors]
    lines = subprocess.run(java, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    values = [json.loads(line) for line in lines]
    glue = boto3.client("glue", endpoint_url=endpoint, region_name="us-east-1")
    schemas = {}
    for version in sorted({value["schema"] for value in values if value["framing"] == "glue"}):
        found = glue.get_schema_version(SchemaVersionId=version)
        schemas[version] = {"kind": found["DataFormat"], "text": found["SchemaDefinition"], "version": found["VersionNumber"]}
    return {"written_by": WRITTEN_BY, "schemas": schemas, "values": values}


def comparable(document: dict) -> list:
    values = []
    for value in document["values"]:
        body = bytes.fromhex(value["value"])
        if value["framing"] == "glue":
            body = body[18:]
        if value["compressed"]:
            body = zlib.decompress(body)
        schema = document["schemas"].get(value["schema"], value["schema"])
        values.append({**value, "value": body.hex(), "schema": schema})
    return values


def main() -> None:
    args = arguments()
    args.work.mkdir(parents=True, exist_ok=True)
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_CONFIG_FILE": os.devnull}
    place = args.work / "endpoint"
    place.unlink(missing_ok=True)
    service = subprocess.Popen([sys.executable, HERE.parent.parent / "services/s3.py", place], stderr=subprocess.DEVNULL)
    try:
        while not place.exists():
            if service.poll() is not None:
                sys.exit("the service ended")
            time.sleep(0.1)
        document = written(args, place.read_text().strip())
    finally:
        service.terminate()
        service.wait()
    if args.write:
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps(document, indent=1) + "\n")
    elif comparable(document) != comparable(json.loads(GOLDEN.read_text())):
        sys.exit("the serializer writes other bytes than the golden file holds")
    print(f"{len(document['values'])} values by AWS's serializer and Avro's library, {len(document['schemas'])} schemas")


if __name__ == "__main__":
    main()
