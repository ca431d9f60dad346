//! What a framing costs: the same records bare, in Glue's framing and in Confluent's, with a registry that has answered before.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ingest::{Ingest, IngestConfig};
use model::clock::{Clock, SystemClock};
use pipeline::environment::{Environment, Registry};
use serde_json::{Value, json};
use staging::local::LocalStore;

const ROUNDS: usize = 11;
const GLUE_VERSION: &str = "5c0ffee5-0000-4000-8000-0000000000a1";
const CONFLUENT_ID: u32 = 42;
const MESSAGE: &str = "gsr.proto.post.Employee";

/// An event with what comes before each of its values. Base64 goes by three bytes, so that values are taken apart first.
fn framed(body: &[u8], before: &[u8]) -> Vec<u8> {
    let mut event: Value = serde_json::from_slice(body).unwrap();
    let parts = event["records"].as_object_mut().unwrap().values_mut();
    for record in parts.flat_map(|part| part.as_array_mut().unwrap()) {
        let value = base64_simd::STANDARD.decode_to_vec(record["value"].as_str().unwrap()).unwrap();
        record["value"] = base64_simd::STANDARD.encode_to_string([before, &value].concat()).into();
    }
    event.to_string().into_bytes()
}

/// What stands before a value: schema and message.
fn before(framing: &str, proto: &str) -> Vec<u8> {
    let messages = || proto.lines().filter_map(|line| line.strip_prefix("message ")?.split(' ').next());
    let own = |name: &&str| MESSAGE.ends_with(&format!(".{name}"));
    match framing {
        "bare" => Vec::new(),
        "glue" => {
            let mut names: Vec<&str> = messages().collect();
            names.sort_unstable();
            let index = names.iter().position(own).unwrap() as u8;
            let version = GLUE_VERSION.replace('-', "");
            let digits = (0..16).map(|n| u8::from_str_radix(&version[n * 2..n * 2 + 2], 16).unwrap());
            [3, 0].into_iter().chain(digits).chain([index]).collect()
        }
        _ => {
            let index = messages().position(|name| own(&name)).unwrap() as u8;
            let path: &[u8] = if index == 0 { &[0] } else { &[2, index * 2] };
            [&[0][..], &CONFLUENT_ID.to_be_bytes(), path].concat()
        }
    }
}

fn ingest(framing: &str, proto: &str, runtime: &tokio::runtime::Runtime) -> (Ingest, tempfile::TempDir) {
    let folder = tempfile::Builder::new().prefix("frazil-bench-").tempdir_in(crate::place()).unwrap();
    let text = include_str!("../../jobs/frazil/demo/employee.toml")
        .replace("framing = \"bare\"", &format!("framing = \"{framing}\""));
    let place = |name: String, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    place("pipelines/employee.toml".to_owned(), &text);
    place("proto/employee.proto".to_owned(), proto);
    place(format!("registry/{GLUE_VERSION}.proto"), proto);
    place(format!("registry/{CONFLUENT_ID}.proto"), proto);
    let main = Registry::Files { dir: folder.path().join("registry") };
    let environment =
        Environment { registries: [("main".to_owned(), main)].into(), ..Environment::embedded(folder.path()) };
    let pipeline = pipeline::file::load(&folder.path().join("pipelines/employee.toml"), &environment).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = Arc::new(LocalStore::open(folder.path(), Arc::clone(&clock)).unwrap());
    let id = "employee-00000001".parse().unwrap();
    let config = IngestConfig::open(pipeline, &environment, &|_| None, id, store, clock);
    (Ingest::new(runtime.block_on(config).unwrap()).unwrap(), folder)
}

/// Milliseconds for an event of 10,000 records to become an object, each framing once in every round, so that what else the
/// machine does falls on all of them; and how much more the framed ones take than the bare ones, the median over the rounds.
pub(crate) fn measure(body: &[u8]) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let proto = include_str!("../../proto/employee.proto");
    let framings = ["bare", "glue", "confluent"];
    let kinds: Vec<_> =
        framings.map(|framing| (ingest(framing, proto, &runtime), framed(body, &before(framing, proto)))).into();
    let minute = SystemClock.now().minute();
    let mut times = vec![Vec::new(); kinds.len()];
    // The first round asks the registry and fills caches.
    for round in 0..=ROUNDS {
        for (((ingest, _), body), times) in kinds.iter().zip(&mut times) {
            let start = Instant::now();
            let staged = runtime.block_on(ingest.stage(body, minute, Duration::from_secs(10))).unwrap();
            let took = start.elapsed().as_secs_f64() * 1000.0;
            assert!(staged.dead_letters.is_none(), "all of it must be rows");
            black_box(staged);
            if round > 0 {
                times.push(took);
            }
        }
    }
    let median = |mut figures: Vec<f64>| {
        figures.sort_unstable_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    let more = |n: usize| median(times[n].iter().zip(&times[0]).map(|(framed, bare)| (framed - bare) / bare).collect());
    json!({
        "milliseconds": framings.iter().zip(&times).map(|(f, t)| ((*f).to_owned(), median(t.clone()).into())).collect::<serde_json::Map<_, _>>(),
        "glue_over_bare": more(1),
        "confluent_over_bare": more(2),
        "target_over_bare": 0.05,
    })
}
