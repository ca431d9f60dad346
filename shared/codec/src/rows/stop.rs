//! Why decoding stopped, gathered on the way out.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::{Class, Rejected};

/// Boxed so that success, the usual case, is one null pointer wide.
pub(crate) type Outcome<T = ()> = Result<T, Box<Stop>>;

/// A rejection whose path grows from the inside out, as callers add where they were.
#[derive(Debug)]
pub(crate) struct Stop {
    class: Class,
    message: Cow<'static, str>,
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Step {
    Field(String),
    Element(usize),
}

impl Stop {
    #[cold]
    #[inline(never)]
    pub(crate) fn new(class: Class, message: impl Into<Cow<'static, str>>) -> Box<Self> {
        Box::new(Self { class, message: message.into(), steps: Vec::new() })
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn truncated() -> Box<Self> {
        Self::new(Class::Truncated, "the bytes end before the value does")
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn within(mut self: Box<Self>, field: &str) -> Box<Self> {
        self.steps.push(Step::Field(field.to_owned()));
        self
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn element(mut self: Box<Self>, index: usize) -> Box<Self> {
        self.steps.push(Step::Element(index));
        self
    }

    #[cold]
    pub(crate) fn into_rejected(self) -> Rejected {
        let mut path = String::new();
        for step in self.steps.iter().rev() {
            match step {
                // An element's own fault has no name of its own.
                Step::Field(name) if path.is_empty() || name.is_empty() => path.push_str(name),
                Step::Field(name) => {
                    path.push('.');
                    path.push_str(name);
                }
                Step::Element(index) => {
                    let _infallible = write!(path, "[{index}]");
                }
            }
        }
        Rejected { class: self.class, path, message: self.message.into_owned() }
    }
}
