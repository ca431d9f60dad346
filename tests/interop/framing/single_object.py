"""An Avro single object put together of what fastavro makes, beside the one that Avro's own library wrote.

fastavro has no writer of single objects; it has the fingerprint, in the order of the wire, and the encoding.
"""

import io
import json
import pathlib
import sys

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form

GOLDEN = pathlib.Path(__file__).parent.parent.parent / "golden/framing/glue.json"


def main() -> None:
    golden = json.loads(GOLDEN.read_text())
    schema = next(json.loads(each["text"]) for each in golden["schemas"].values() if each["kind"] == "AVRO")
    payload = io.BytesIO()
    fastavro.schemaless_writer(payload, schema, {"name": "sensor7", "reading": -8})
    crc = bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))
    mine = (b"\xc3\x01" + crc + payload.getvalue()).hex()
    theirs = [value for value in golden["values"] if value["framing"] == "avro-single-object"]
    if [value["value"] for value in theirs] != [mine] or theirs[0]["schema"] != crc[::-1].hex():
        sys.exit(f"fastavro makes {mine}, and the golden file holds {theirs}")
    print("1 single object, as fastavro makes it")


if __name__ == "__main__":
    main()
