"""What a table holds, as a few numbers that do not depend on who read it.

`fingerprint(arrow_table)` gives `{"rows": N, "columns": {leaf: {"values": n, "sum": s}}, "row_sum": s}`:

- A *leaf* is a column or, for a struct, each of its fields: `team.name`. A field of a null struct is null. Lists and maps
  are refused: no two engines give them the same shape.
- Each value has a 64-bit hash, by the kind of its column, whatever width or unit the engine chose for it:
    boolean, integer, date (days), time (microseconds since midnight), timestamp (microseconds since the epoch)
                       mix(the value as a 64-bit two's complement number)
    float, double      mix(the bits of the value as a double; -0.0 is 0.0, every NaN is 0x7ff8000000000000)
    string, enum, uuid text       mix(xxh3_64 of the UTF-8 bytes)
    binary             mix(xxh3_64 of the bytes)
    decimal            mix(xxh3_64 of its shortest text without exponent, e.g. "-1.5", "20")
  where mix is the finaliser of SplitMix64: z ^= z >> 30; z *= 0xbf58476d1ce4e5b9; z ^= z >> 27;
  z *= 0x94d049bb133111eb; z ^= z >> 31.
- `values` counts the values that are not null; `sum` adds their hashes modulo 2^64, so the order of rows plays no part.
- `row_sum` holds rows together: per row r = 0, then over the leaves in the order of their names r = mix(r ^ h) with the
  value's hash h, or 0x9e3779b97f4a7c15 for null; the rows' r are added modulo 2^64.

Sums are decimal text, since JSON readers lose digits beyond 2^53.
"""

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

NULL = np.uint64(0x9E3779B97F4A7C15)


def mix(z: np.ndarray) -> np.ndarray:
    z = z.astype(np.uint64, copy=True)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def leaves(name: str, column: pa.ChunkedArray):
    """(dotted name, column without structs) for each leaf under `column`."""
    if pa.types.is_struct(column.type):
        # Not `flatten`: it is the one call that carries a null struct down to its fields.
        array = column.combine_chunks()
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        for field, child in zip(array.type, array.flatten()):
            yield from leaves(f"{name}.{field.name}", pa.chunked_array([child]))
    else:
        yield name, column


def integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Booleans, integers, dates, times and timestamps as int64 in the units the definition names."""
    t = column.type
    if pa.types.is_timestamp(t):
        # Narrowing floors towards the past, as the tables' own rule is; a safe cast refuses instead of losing digits.
        return column.cast(pa.timestamp("us", tz=t.tz)).cast(pa.int64())
    if pa.types.is_date(t):
        return column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    if pa.types.is_time(t):
        return column.cast(pa.time64("us")).cast(pa.int64())
    if pa.types.is_boolean(t):
        return column.cast(pa.int8()).cast(pa.int64())
    if pa.types.is_uint64(t):
        return pa.chunked_array([pa.array(column.to_numpy().view(np.int64))]) if column.null_count == 0 else column.cast(pa.int64())
    return column.cast(pa.int64())


def hashes(name: str, column: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
    """The hash of each value (0 where null), and where a value is."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    t = column.type
    present = column.is_valid().to_numpy()
    if pa.types.is_floating(t):
        values = column.cast(pa.float64()).fill_null(0.0).to_numpy().copy()
        values[values == 0.0] = 0.0
        bits = values.view(np.uint64).copy()
        bits[np.isnan(values)] = np.uint64(0x7FF8000000000000)
        hashed = mix(bits)
    elif pa.types.is_decimal(t) or is_text(t):
        # Few distinct values are common; each is hashed once.
        encoded = column.combine_chunks()
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        encoded = encoded.dictionary_encode()
        distinct = np.fromiter(
            (xxhash.xxh3_64_intdigest(as_bytes(v)) for v in encoded.dictionary.to_pylist()),
            dtype=np.uint64,
            count=len(encoded.dictionary),
        )
        indices = encoded.indices.fill_null(0).to_numpy()
        hashed = mix(distinct)[indices] if len(distinct) else np.zeros(len(indices), np.uint64)
    elif pa.types.is_nested(t):
        raise SystemExit(f"column {name}: {t} has no fingerprint")
    else:
        hashed = mix(integers(column).fill_null(0).to_numpy().view(np.uint64))
    hashed[~present] = 0
    return hashed, present


def is_text(t: pa.DataType) -> bool:
    kinds = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
        pa.types.is_fixed_size_binary,
    )
    return any(kind(t) for kind in kinds)


def as_bytes(value) -> bytes:
    if isinstance(value, decimal.Decimal):
        text = format(value, "f")
        if "." in text:
            text = text.rstrip("0").rstrip(".")
        value = "0" if text == "-0" else text
    return value.encode() if isinstance(value, str) else value


def fingerprint(table: pa.Table) -> dict:
    columns = {}
    row = np.zeros(table.num_rows, np.uint64)
    flat = [leaf for name in table.column_names for leaf in leaves(name, table.column(name))]
    for name, column in sorted(flat, key=lambda leaf: leaf[0]):
        hashed, present = hashes(name, column)
        columns[name] = {"values": int(present.sum()), "sum": str(int(hashed.sum(dtype=np.uint64)))}
        row = mix(row ^ np.where(present, hashed, NULL))
    return {"rows": table.num_rows, "columns": columns, "row_sum": str(int(row.sum(dtype=np.uint64)))}
