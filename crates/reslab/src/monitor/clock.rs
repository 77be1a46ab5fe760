//! The time of day when something will be over.

use std::time::{SystemTime, UNIX_EPOCH};

/// `14:05`, in this machine's time zone, so many seconds from now; `None` from a day on.
pub(crate) fn clock_after(seconds: f64) -> Option<String> {
    if !(0.0..86_400.0).contains(&seconds) {
        return None;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
    let (hours, minutes) = local((now + seconds) as libc::time_t)?;
    Some(format!("{hours:02}:{minutes:02}"))
}

fn local(time: libc::time_t) -> Option<(i32, i32)> {
    // SAFETY: zero is a valid tm; localtime_r writes only into it, and hands back null where it can't tell.
    unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        let known = !libc::localtime_r(&time, &mut parts).is_null();
        known.then_some((parts.tm_hour, parts.tm_min))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_later_is_the_next_hour_and_a_day_is_too_far() {
        let (now, later) = (local(1_700_000_000).unwrap(), local(1_700_003_600).unwrap());
        assert_eq!(((now.0 + 1) % 24, now.1), later);
        assert_eq!([86_400.0, -1.0, f64::NAN, f64::INFINITY].map(clock_after), [None, None, None, None]);
        assert!(clock_after(60.0).is_some_and(|time| time.len() == 5 && time.contains(':')));
    }
}
