"""What catalogs keep of their contract, as a table: contract_table.py FILE [CATALOG...]

FILE has a line for each property that a test tried: catalog, property and verdict, separated by tabs. One line of the table for each
catalog, one column for each property. It fails where a verdict is BROKEN, and where a catalog that is named has none.
"""

import sys


def main() -> None:
    verdicts: dict[str, dict[str, str]] = {}
    with open(sys.argv[1]) as file:
        for line in file:
            catalog, prop, verdict = line.rstrip("\n").split("\t")
            verdicts.setdefault(catalog, {})[prop] = verdict
    properties = list(dict.fromkeys(prop for row in verdicts.values() for prop in row))
    rows = [["catalog", *properties]]
    rows += [[catalog, *(row.get(prop, "NOT RUN") for prop in properties)] for catalog, row in verdicts.items()]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    missing = [name for name in sys.argv[2:] if name not in verdicts]
    if missing:
        print(f"no verdict of {', '.join(missing)}")
    sys.exit(1 if missing or any(cell in ("BROKEN", "NOT RUN") for row in rows for cell in row) else 0)


if __name__ == "__main__":
    main()
