"""Makes a bucket, or a table bucket, whose ARN it prints, or says whether a demo left in a bucket what it should.
s3_bucket.py make|tables|check BUCKET

The service is the one of AWS_ENDPOINT_URL.
"""

import collections
import os
import re
import sys

import boto3

EXPECTED = {
    "staging": r"staged here/staging/employee-[0-9a-f]{8}/\d{4}-\d\d-\d\d/\d\d/\d\d/[0-9a-f]{32}\.parquet",
    "dead letters": r"staged here/dead-letters/employee-[0-9a-f]{8}/\d{4}-\d\d-\d\d/\d\d/\d\d/[0-9a-f]{32}\.jsonl",
    "settlements": r"staged here/settled/employee-[0-9a-f]{8}/[0-9a-f-]{36}/[0-9a-f-]+\.json",
    "run": r"staged here/runs/employee-[0-9a-f]{8}/fold\.json",
    "id": r"staged here/pipelines/employee/id",
    "data": r"lake/bigdata/employee/data/.+\.parquet",
    "metadata": r"lake/bigdata/employee/metadata/.+\.(avro|json)",
}


def main() -> None:
    what, bucket = sys.argv[1:]
    s3 = boto3.client("s3")
    if what == "make":
        s3.create_bucket(Bucket=bucket)
        return
    if what == "tables":
        print(boto3.client("s3tables", region_name=os.environ["AWS_REGION"]).create_table_bucket(name=bucket)["arn"])
        return
    found = collections.Counter()
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for entry in page.get("Contents", []):
            kinds = [kind for kind, pattern in EXPECTED.items() if re.fullmatch(pattern, entry["Key"])]
            if not kinds:
                sys.exit(f"what is {entry['Key']}?")
            found[kinds[0]] += 1
    print(dict(found))
    missing = EXPECTED.keys() - found.keys()
    if missing:
        sys.exit(f"nothing of these is there: {sorted(missing)}")
    uploads = s3.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    if uploads:
        sys.exit(f"unfinished uploads: {[upload['Key'] for upload in uploads]}")


if __name__ == "__main__":
    main()
