//! Settings by name, read through a closure, with all faults reported together.

use std::fmt;
use std::str::FromStr;

use model::failure::Kind;

/// The process's environment as a look-up: for binaries. A variable that is empty or not UTF-8 counts as unset.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// One setting that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The setting's name.
    pub name: String,
    /// What is wrong with it.
    pub message: String,
}

/// Every setting that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, fault) in self.0.iter().enumerate() {
            write!(f, "{}{}: {}", if n > 0 { "; " } else { "" }, fault.name, fault.message)?;
        }
        Ok(())
    }
}

impl Faults {
    /// A person must change a setting.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        Kind::Misconfigured
    }
}

/// Reads settings and gathers what is wrong with them.
pub struct Settings<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
    faults: Vec<Fault>,
}

impl fmt::Debug for Settings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("faults", &self.faults).finish_non_exhaustive()
    }
}

impl<'a> Settings<'a> {
    /// Over a look-up: [`environment`], or a map in a test.
    #[must_use]
    pub fn new(get: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { get, faults: Vec::new() }
    }

    /// A setting that may be left out.
    #[must_use]
    pub fn optional(&self, name: &str) -> Option<String> {
        (self.get)(name)
    }

    /// A setting that must be there, read by a function; its absence or a fault in it is noted.
    pub fn required<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        if self.optional(name).is_none() {
            self.fault(name, "it is not set");
        }
        self.checked(name, read)
    }

    /// A setting that may be left out, parsed; a fault in it is noted.
    pub fn parsed<T>(&mut self, name: &str) -> Option<T>
    where
        T: FromStr,
        T::Err: fmt::Display,
    {
        self.checked(name, |text| text.parse::<T>().map_err(|e| e.to_string()))
    }

    /// A setting that may be left out, read by a function; a fault in it is noted.
    pub fn checked<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        match read(&self.optional(name)?) {
            Ok(value) => Some(value),
            Err(message) => {
                self.fault(name, message);
                None
            }
        }
    }

    /// Notes a fault.
    pub fn fault(&mut self, name: &str, message: impl Into<String>) {
        self.faults.push(Fault { name: name.to_owned(), message: message.into() });
    }

    /// The value made of the settings; `None` where a fault that was noted kept it from being made.
    ///
    /// # Errors
    /// All faults that were noted.
    pub fn finish<T>(self, value: Option<T>) -> Result<T, Faults> {
        match value {
            Some(value) if self.faults.is_empty() => Ok(value),
            _ => Err(Faults(self.faults)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log;

    #[test]
    fn every_fault_is_reported_at_once() {
        let get = |name: &str| match name {
            "SIZE" => Some("many".to_owned()),
            "FRAZIL_LOG" => Some("info,=[".to_owned()),
            "FRAZIL_LOG_FORMAT" => Some("xml".to_owned()),
            _ => None,
        };
        let mut settings = Settings::new(&get);
        assert_eq!(settings.required("STORE", |text| Ok(text.to_owned())), None);
        assert_eq!(settings.parsed::<u32>("SIZE"), None);
        assert_eq!(settings.parsed::<u32>("ABSENT"), None);
        assert_eq!(log::Config::parse(&mut settings, log::Format::Json).format, log::Format::Json);
        let faults = settings.finish(Some(())).unwrap_err();
        let names: Vec<&str> = faults.0.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["STORE", "SIZE", "FRAZIL_LOG", "FRAZIL_LOG_FORMAT"]);
        assert_eq!(faults.kind(), Kind::Misconfigured);
        assert!(faults.to_string().contains("STORE: it is not set; SIZE: "));
    }

    #[test]
    fn without_faults_the_value_is_given() {
        let get = |name: &str| (name == "A").then(|| "1".to_owned());
        let mut settings = Settings::new(&get);
        let a = settings.parsed::<u8>("A");
        assert_eq!(settings.finish(a), Ok(1));
    }
}
