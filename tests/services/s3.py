"""A service that speaks S3, in memory, on a free loopback port. s3.py ENDPOINT_FILE

Writes its endpoint to the file once it answers, and serves until it is ended. It answers one request after the other, so
that of several conditional puts of one key exactly one stores, as in S3: moto itself looks first and stores then.
"""

import os
import pathlib
import sys

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server


def main() -> None:
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
