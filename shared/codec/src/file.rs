//! Schema files.

use std::io;
use std::path::Path;

use crate::Error;

/// Bytes of a schema file: descriptors of thousands of messages are a part of it.
const BYTES_MAX: u64 = 64 << 20;

/// A schema file's text.
///
/// # Errors
/// [`Error::Read`] when it can't be read, [`Error::Schema`] when it is not UTF-8.
pub(crate) fn text(path: &Path) -> Result<String, Error> {
    let unusable = |_| Error::Schema { path: path.to_owned(), message: "it is not UTF-8".to_owned() };
    String::from_utf8(bytes(path)?).map_err(unusable)
}

/// A schema file's bytes.
///
/// # Errors
/// [`Error::Read`] when it can't be read.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, Error> {
    read(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

/// The same, with the system's own answer. A pipe would be waited for without an end, and so would something endless.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let found = std::fs::metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::other("it is no file, but a folder, a pipe, a socket or a device"));
    }
    if found.len() > BYTES_MAX {
        let message = format!("larger than {BYTES_MAX} bytes, which no schema needs to be");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    std::fs::read(path)
}

#[cfg(test)]
mod tests {
    use pipeline::resolved::Schema;

    use crate::payload;

    #[test]
    fn what_is_no_file_is_not_opened_whatever_its_format() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let message = "A".to_owned();
        for schema in [
            Schema::Proto { path: path.clone(), message: message.clone() },
            Schema::Descriptor { path: path.clone(), message },
            Schema::Avro { path: path.clone() },
            Schema::Json { path },
        ] {
            let error = payload::Schema::load(&schema).unwrap_err();
            assert!(error.to_string().contains("no file, but a folder, a pipe"), "{error}");
        }
    }
}
