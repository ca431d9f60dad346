//! What only a process shows: signals, and a stdout that takes nothing.

use std::process::{Command, Stdio};

use super::*;

fn frazil(place: &Place, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frazil"));
    command.args(arguments).current_dir(place.folder.path()).stdin(Stdio::null());
    command
}

#[cfg(unix)]
#[test]
fn a_signal_leaves_one_document_and_exit_code_130() {
    for signal in ["TERM", "INT"] {
        let place = Place::new();
        let arguments = ["demo", "--json", "--dir", "dir", "--records", "100000000"];
        let mut child = frazil(&place, &arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        // It is at work once it has staged something.
        for _ in 0..1200 {
            if !files(&place.path("dir/staging")).is_empty() {
                break;
            }
            #[expect(clippy::disallowed_methods, reason = "another process is waited for, and no runtime runs here")]
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        assert!(child.try_wait().unwrap().is_none(), "it was done before the signal");
        let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let left = child.wait_with_output().unwrap();
        let document: Value = serde_json::from_slice(&left.stdout).unwrap();
        assert_eq!((left.status.code(), &document["schema"]), (Some(130), &json!("frazil.demo/1")), "{signal}");
        assert_eq!((&document["ok"], &document["error"]["code"]), (&json!(false), &json!("interrupted")));
        assert!(document["error"]["remedy"].is_string());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_stdout_that_takes_nothing_is_a_failure_of_its_own() {
    let place = Place::with_pipeline();
    for arguments in [&["fold", "--dir", "dir"][..], &["fold", "--dir", "dir", "--json"], &["--version"], &["--help"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let left = frazil(&place, arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let text = String::from_utf8(left.stderr).unwrap();
        assert_eq!(left.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(text.contains("output.stdout") && !text.contains("misconfigured"), "{arguments:?}: {text}");
    }
}

#[cfg(feature = "kafka")]
#[test]
fn variables_go_before_the_file_and_flags_before_both() {
    let place = Place::new();
    place.write("frazil.toml", "[env.local]\ndir = \"dir\"\nkafka = { command_config = \"absent.properties\" }\n");
    let produce = |flags: &[&str], variable: Option<&str>| {
        let mut command = frazil(&place, &[&["produce", "--topic", "t", "--dry-run", "--json"], flags].concat());
        if let Some(servers) = variable {
            command.env("FRAZIL_BOOTSTRAP_SERVER", servers);
        }
        command.output().unwrap().status.code()
    };
    assert_eq!(produce(&[], None), Some(2));
    assert_eq!(produce(&[], Some("b:9092")), Some(0));
    assert_eq!(produce(&["--command-config", "absent.properties"], Some("b:9092")), Some(2));
    assert_eq!(produce(&["-b", "b:9092"], None), Some(0));
}
