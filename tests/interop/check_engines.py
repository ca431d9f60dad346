"""Compares a table as several engines read it with the truth of who sent it.

check_engines.py --dir DIR --table NAMESPACE.NAME --truth FILE [--engines pyiceberg,duckdb,chdb]

FILE is a fingerprint (checksum.py) as `frazil demo --truth` writes it: its columns are the ones compared. Exits 1 when
any engine differs in the number of rows, in a column or in the sum over rows.
"""

import argparse
import json
import pathlib
import subprocess
import sys


def differences(truth: dict, found: dict) -> list[str]:
    faults = []
    for key in ("rows", "row_sum"):
        if truth[key] != found[key]:
            faults.append(f"{key}: {found[key]}, should be {truth[key]}")
    for name, column in truth["columns"].items():
        if found["columns"].get(name) != column:
            faults.append(f"column {name}: {found['columns'].get(name)}, should be {column}")
    return faults


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=pathlib.Path, required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--truth", type=pathlib.Path, required=True)
    parser.add_argument("--engines", default="pyiceberg,duckdb,chdb")
    args = parser.parse_args()

    truth = json.loads(args.truth.read_text())
    columns = sorted({name.split(".")[0] for name in truth["columns"]})
    reader = pathlib.Path(__file__).with_name("read_table.py")
    wrong = False
    for engine in args.engines.split(","):
        # A process each: the engines bring their own copies of the same libraries.
        command = [sys.executable, reader, "--dir", args.dir, "--table", args.table, "--engine", engine]
        command += ["--columns", ",".join(columns), "--json"]
        output = subprocess.run(command, stdout=subprocess.PIPE)
        if output.returncode != 0:
            print(f"{engine}: could not read the table")
            wrong = True
            continue
        found = json.loads(output.stdout)
        faults = differences(truth, found)
        wrong |= bool(faults)
        verdict = "equal to what was sent" if not faults else "NOT what was sent"
        print(f"{engine}: {found['rows']} rows, {len(truth['columns'])} columns, {verdict}")
        for fault in faults:
            print(f"  {fault}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
