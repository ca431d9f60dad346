//! How much memory there is for this process: the machine's, or less where a control group sets a limit.

use std::fs;
use std::path::{Path, PathBuf};

/// What version 1 of control groups shows where there is no limit is near 2^63; nothing has as much.
const UNLIMITED: u64 = 1 << 60;

/// Bytes of memory of the machine, or of the container or job that the process runs in, whichever is least. `None` where
/// the system does not say, as outside Linux.
#[must_use]
pub fn limit() -> Option<u64> {
    limit_below(Path::new("/"))
}

fn limit_below(root: &Path) -> Option<u64> {
    let read = |path: &Path| fs::read_to_string(root.join(path)).ok();
    let machine = read(Path::new("proc/meminfo")).and_then(|text| total(&text));
    let groups = read(Path::new("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(files).filter_map(|file| bytes(&read(&file)?));
    limits.chain(machine).min()
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The files that may hold a limit on a group of `/proc/self/cgroup`, `id:controllers:path`: its own and those of the groups
/// it is in. Inside a container the path may be one of the host's, of which only the root is to be seen.
fn files(line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let (folder, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        _ => return Vec::new(),
    };
    let path = Path::new(path.trim_start_matches('/'));
    path.ancestors().map(|group| Path::new(folder).join(group).join(file)).collect()
}

/// A limit; `max` is none.
fn bytes(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| *bytes < UNLIMITED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_counts() {
        const MEMINFO: &str = "MemTotal:        8000000 kB\nMemFree:          100 kB\n";
        let machine = Some(8_000_000 * 1024);
        let check = |files: &[(&str, &str)], expected: Option<u64>| {
            let root = tempfile::tempdir().unwrap();
            for (path, text) in files {
                let path = root.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            assert_eq!(limit_below(root.path()), expected, "{files:?}");
        };
        check(&[], None);
        check(&[("proc/meminfo", "MemTotal: many kB\n")], None);
        check(&[("proc/meminfo", MEMINFO)], machine);
        let second = |own: &'static str, above: &'static str| {
            [
                ("proc/meminfo", MEMINFO),
                ("proc/self/cgroup", "0::/jobs/one\n"),
                ("sys/fs/cgroup/jobs/one/memory.max", own),
                ("sys/fs/cgroup/jobs/memory.max", above),
            ]
        };
        check(&second("max\n", "max\n"), machine);
        check(&second("1048576\n", "max\n"), Some(1 << 20));
        check(&second("1048576\n", "4096\n"), Some(4096));
        check(&second("99999999999999\n", "max\n"), machine);
        // A container that sees its own group as the root.
        let inside = [("proc/self/cgroup", "0::/../../docker/1\n"), ("sys/fs/cgroup/memory.max", "2097152\n")];
        check(&inside, Some(2 << 20));
        let first = |limit: &'static str| {
            [
                ("proc/meminfo", MEMINFO),
                ("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:hugetlb,memory:/a/b\n"),
                ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", limit),
                ("sys/fs/cgroup/a/memory.max", "1"),
            ]
        };
        check(&first("3145728\n"), Some(3 << 20));
        check(&first("9223372036854771712\n"), machine);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_some() {
        assert!(limit().is_some_and(|bytes| bytes > 1 << 20));
    }
}
