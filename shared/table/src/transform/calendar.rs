//! The proleptic Gregorian calendar by day number, for every day that fits the arithmetic.

pub(super) const MICROS_PER_HOUR: i64 = 3_600_000_000;
pub(super) const MICROS_PER_DAY: i64 = 24 * MICROS_PER_HOUR;

/// Days in 400 years, after which the calendar repeats.
const CYCLE_DAYS: i64 = 146_097;
/// Days from 1 March of the year 0 to 1 January 1970.
const MARCH_OF_YEAR_0: i64 = 719_468;

/// Year, month (1..=12) and day (1..=31) of a day counted from 1970-01-01. Years are counted from 1 March inside, so that
/// the leap day is the last of its year.
pub(crate) fn civil(days: i64) -> (i64, u8, u8) {
    let days = days + MARCH_OF_YEAR_0;
    let cycle = days.div_euclid(CYCLE_DAYS);
    let day = days.rem_euclid(CYCLE_DAYS);
    // Taking out the leap days that have passed leaves years of 365 days.
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    // March, April, … February in a pattern of 153 days every five months.
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let narrow = |n: i64| u8::try_from(n).unwrap_or(0);
    (cycle * 400 + year + carry, narrow(month), narrow(day_of_month))
}

#[cfg(test)]
mod tests {
    use super::civil;
    use chrono::{Datelike, NaiveDate, TimeDelta};

    #[test]
    fn every_day_of_eight_centuries_and_a_few_far_ones_agree_with_another_calendar() {
        let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
        let far = [-719_528, -719_529, -720_000, 2_932_896, 30_000_000, -30_000_000];
        for days in (-150_000..150_000).chain(far) {
            let date = epoch + TimeDelta::days(days);
            let expected = (i64::from(date.year()), date.month() as u8, date.day() as u8);
            assert_eq!(civil(days), expected, "{days}");
        }
    }
}
