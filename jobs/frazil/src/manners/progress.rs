//! Progress bars: on a terminal only, never in a log or a pipe.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Whether and how progress is shown.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    shown: bool,
}

impl Progress {
    pub(crate) const fn new(shown: bool) -> Self {
        Self { shown }
    }

    /// A bar towards a known total.
    #[must_use]
    pub fn bar(self, what: &'static str, total: u64) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(total), self.target());
        // A template that does not parse would only cost the bar its looks.
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} {eta}") {
            bar.set_style(style);
        }
        bar.set_message(what);
        bar
    }

    /// A sign of life for work without a known total.
    #[must_use]
    pub fn spinner(self, what: &'static str) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(None, self.target());
        bar.set_message(what);
        if self.shown {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        bar
    }

    fn target(self) -> ProgressDrawTarget {
        if self.shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }
    }
}
