//! Memory of this process, as the system reports it.

/// Returns the resident memory of this process in bytes, if the system reports it.
pub fn resident_bytes() -> Option<u64> {
    of_status("VmRSS:")
}

/// Returns the peak of the resident memory of this process in bytes, if the system reports it.
pub fn peak_bytes() -> Option<u64> {
    of_status("VmHWM:")
}

/// Lets the peak begin anew from what is resident now. Returns whether the system can do that.
pub fn forget_peak() -> bool {
    // Linux: 5 resets the peak and nothing else.
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

fn of_status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_never_below_what_is_resident() {
        assert!(forget_peak());
        let resident = resident_bytes().unwrap();
        assert!(resident > 0 && peak_bytes().unwrap() >= resident);
    }
}
