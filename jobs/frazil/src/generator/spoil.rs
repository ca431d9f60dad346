//! Payloads that no protobuf reader may accept, one way after another.

use super::employee::Employee;

/// How many ways there are.
pub(super) const WAYS: u64 = 7;

/// Appends the payload of the `nth` bad record of a run.
pub(super) fn encode(nth: u64, employee: &Employee, out: &mut Vec<u8>) {
    match nth % WAYS {
        // Cut inside the address: its length says more than is there.
        0 => {
            employee.encode(out);
            out.truncate(24);
        }
        // A name that is not UTF-8.
        1 => {
            out.extend_from_slice(&[0x12, 3, b'D', 0xff, 0xfe]);
            employee.encode_rest(out);
        }
        // An id of eleven bytes: a varint has at most ten.
        2 => {
            out.push(0x08);
            out.extend_from_slice(&[0x80; 10]);
            out.push(0x01);
            employee.encode_rest(out);
        }
        // Field number 0 does not exist.
        3 => {
            employee.encode(out);
            out.extend_from_slice(&[0x00, 0x01]);
        }
        // Wire type 7 does not exist.
        4 => {
            employee.encode(out);
            out.extend_from_slice(&[0x7f, 0x01]);
        }
        // The end of a group that never began.
        5 => {
            employee.encode(out);
            out.push(0x4c);
        }
        // A team of four gigabytes.
        _ => {
            employee.encode_name(out);
            out.extend_from_slice(&[0x32, 0xff, 0xff, 0xff, 0xff, 0x0f]);
        }
    }
}
