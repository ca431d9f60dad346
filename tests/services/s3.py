"""A service that speaks S3, Glue and S3 Tables, in memory, on a free loopback port. s3.py ENDPOINT_FILE

Writes its endpoint to the file once it answers, and serves until it is ended. It answers one request after the other, so
that of several conditional puts of one key exactly one stores, as in S3: moto itself looks first and stores then. Glue's UpdateTable
compares the VersionId that it is told with the table's, as Glue does; moto itself passes it over. The version tokens of S3 Tables it
compares itself, and the places that it gives its tables list and delete nothing; what it answers to UpdateTableMetadataLocation is put into
S3 Tables' own shape.
"""

import json
import os
import pathlib
import sys

from moto.glue.exceptions import GlueClientError
from moto.glue.responses import GlueResponse
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from moto.s3tables.responses import S3TablesResponse
from werkzeug.serving import make_server


class ConcurrentModification(GlueClientError):
    """Another change came first."""

    def __init__(self) -> None:
        super().__init__("ConcurrentModificationException", "Update table failed due to concurrent modifications.")


replace_table = GlueResponse.update_table


def update_table(self: GlueResponse) -> object:
    """UpdateTable as Glue has it: only of the version that is told."""
    told = self.parameters.get("VersionId")
    table = self.glue_backend.get_table(self.parameters.get("DatabaseName"), self.parameters["TableInput"]["Name"])
    if told is not None and told != table.as_dict()["VersionId"]:
        raise ConcurrentModification
    return replace_table(self)


name_metadata = S3TablesResponse.update_table_metadata_location


def update_table_metadata_location(self: S3TablesResponse) -> object:
    """UpdateTableMetadataLocation as S3 Tables answers it: a namespace is a list, and an ARN is called one."""
    status, headers, body = name_metadata(self)
    answer = json.loads(body)
    answer["tableARN"] = answer.pop("tableArn", answer.get("tableARN"))
    if isinstance(answer["namespace"], str):
        answer["namespace"] = [answer["namespace"]]
    return status, headers, json.dumps(answer)


def main() -> None:
    GlueResponse.update_table = update_table
    S3TablesResponse.update_table_metadata_location = update_table_metadata_location
    place = pathlib.Path(sys.argv[1])
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, app, threaded=False, request_handler=MotoRequestHandler)
    os.environ["MOTO_PORT"] = str(server.port)
    draft = place.with_suffix(".part")
    draft.write_text(f"http://127.0.0.1:{server.port}\n")
    draft.rename(place)
    server.serve_forever()


if __name__ == "__main__":
    main()
