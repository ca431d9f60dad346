"""Whether a demo's own report adds up. check_demo.py --report FILE --records N

In append mode every record that arrived is a row or a dead letter, and every record that came a second time was dropped.
Needs no package beyond Python's own.
"""

import argparse
import json
import sys


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--report", required=True)
    parser.add_argument("--records", type=int, required=True)
    args = parser.parse_args()
    with open(args.report) as file:
        r = json.load(file)
    arrived = r["records_sent"] + r["duplicates_sent"]
    ended = r["rows_in_table"] + r["duplicates_dropped"] + r["dead_letters"]
    checks = {
        "ok": r["ok"] is True,
        "records_sent is what was asked for": r["records_sent"] == args.records,
        f"records_sent + duplicates_sent = {arrived} = rows_in_table + duplicates_dropped + dead_letters = {ended}": arrived == ended,
        "dead_letters = bad_sent": r["dead_letters"] == r["bad_sent"],
        "some record came twice, some could not be decoded": r["duplicates_sent"] > 0 and r["bad_sent"] > 0,
    }
    for claim, holds in checks.items():
        print(("holds  " if holds else "FAILS  ") + claim)
    sys.exit(0 if all(checks.values()) else 1)


if __name__ == "__main__":
    main()
