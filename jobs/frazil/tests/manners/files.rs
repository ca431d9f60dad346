//! What lies where files should, and is none.

use super::planning::{employee, faults, project};
use super::*;

#[test]
fn what_is_no_file_under_a_pipelines_name_is_said() {
    let place = project(&[("good", &employee(""))]);
    place.write("pipelines/folder.toml/x", "");
    std::os::unix::fs::symlink("nowhere", place.path("pipelines/dangling.toml")).unwrap();
    std::os::unix::fs::symlink("loop.toml", place.path("pipelines/loop.toml")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(place.path("pipelines/pipe.toml")).status().unwrap();
    assert!(made.success());
    let (exit, document) = place.answer(&["check"]);
    let names = ["dangling", "folder", "loop", "pipe"];
    let expected = names.map(|name| format!("pipelines/{name}.toml:1:1 unreadable"));
    assert_eq!((exit, faults(&document)), (Exit::No, expected.to_vec()), "{document}");
    for (fault, what) in document["faults"].as_array().unwrap().iter().zip(["nowhere", "folder", "loop.toml", "pipe"]) {
        assert!(fault["message"].as_str().unwrap().contains(what), "{fault}");
    }
    // Whoever lists pipelines knows of them, and whoever names one is told what it is.
    let (exit, document) = place.answer(&["plan"]);
    assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!("config.several_pipelines")), "{document}");
    for name in names {
        let (exit, document) = place.answer(&["plan", name]);
        assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!("config.unreadable")), "{document}");
    }
    assert_eq!(place.check(&["good"]), (Exit::Done, Vec::new()));
}

#[test]
fn an_environment_file_that_is_a_link_to_nothing_is_not_passed_over() {
    let place = project(&[("employee", &employee(""))]);
    std::fs::remove_file(place.path("frazil.toml")).unwrap();
    std::os::unix::fs::symlink("nowhere", place.path("frazil.toml")).unwrap();
    assert_eq!(place.check(&[]), (Exit::No, vec!["frazil.toml:1:1 unreadable".to_owned()]));
    let (exit, document) = place.answer(&["pause"]);
    assert_eq!((exit, &document["error"]["code"]), (Exit::Usage, &json!("config.unreadable")), "{document}");
    assert!(!place.path(".frazil").exists());
}
