//! What a framing costs: the same records bare, in Glue's framing and in Confluent's, with a registry that has answered before.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codec::framing::{Record, Settings, Splitter};
use codec::payload::Decoder;
use ingest::{Ingest, IngestConfig};
use model::clock::{Clock, SystemClock};
use pipeline::environment::{Environment, Registry};
use pipeline::resolved::{Format, Framing};
use serde_json::{Value, json};
use staging::local::LocalStore;

const ROUNDS: usize = 11;
/// The same values over and over in one round: once takes a millisecond, and a tick of the machine's would be a part of that.
const PASSES: usize = 20;
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

const FRAMINGS: [&str; 3] = ["bare", "glue", "confluent"];

/// The medians of each framing's times, and of how much more than the bare one it takes, round by round.
fn report(times: &[Vec<f64>]) -> Value {
    let median = |mut figures: Vec<f64>| {
        figures.sort_unstable_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    let more = |n: usize| median(times[n].iter().zip(&times[0]).map(|(framed, bare)| (framed - bare) / bare).collect());
    let medians = FRAMINGS.iter().zip(times).map(|(f, t)| ((*f).to_owned(), median(t.clone()).into()));
    json!({
        "milliseconds": medians.collect::<serde_json::Map<_, _>>(),
        "glue_over_bare": more(1),
        "confluent_over_bare": more(2),
    })
}

/// Milliseconds for these payloads, as values in each framing, to become Arrow: what takes the framing off and looks for the schema's
/// reader, and what decodes. As [`measure`] otherwise.
pub(crate) fn to_arrow(payloads: &[Vec<u8>], decoder: &mut Decoder) -> Value {
    let proto = include_str!("../../proto/employee.proto");
    let values = FRAMINGS.map(|framing| {
        let before = before(framing, proto);
        payloads.iter().map(|payload| [before.as_slice(), payload].concat()).collect::<Vec<_>>()
    });
    let mut splitters = [Framing::Bare, Framing::Glue, Framing::Confluent]
        .map(|framing| Splitter::new(Settings::new(Format::Protobuf, framing)).unwrap());
    let mut times = vec![Vec::new(); FRAMINGS.len()];
    for round in 0..=ROUNDS {
        for (n, ((splitter, values), times)) in splitters.iter_mut().zip(&values).zip(&mut times).enumerate() {
            let start = Instant::now();
            for value in std::iter::repeat_n(values, PASSES).flatten() {
                // Ingest takes bare values as they are, too.
                if n == 0 {
                    decoder.decode(value).unwrap();
                    continue;
                }
                let record = Record { value, schema_header: None, unwrapped: None };
                let payload = match splitter.repeated(&record) {
                    Some(payload) => payload,
                    None => splitter.split(&record).unwrap().payload,
                };
                decoder.decode(payload).unwrap();
            }
            black_box(decoder.finish().unwrap());
            if round > 0 {
                times.push(start.elapsed().as_secs_f64() * 1000.0 / PASSES as f64);
            }
        }
    }
    let mut report = report(&times);
    report["records"] = payloads.len().into();
    report["target_over_bare"] = 0.05.into();
    report
}

/// Milliseconds for an event to become an object, each framing once in every round, so that what else the
/// machine does falls on all of them; and how much more the framed ones take than the bare ones, the median over the rounds. Framed
/// events are longer, and every byte is read, decoded and hashed.
pub(crate) fn measure(body: &[u8]) -> Value {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let proto = include_str!("../../proto/employee.proto");
    let kinds: Vec<_> =
        FRAMINGS.map(|framing| (ingest(framing, proto, &runtime), framed(body, &before(framing, proto)))).into();
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
    report(&times)
}
