use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use codec::schema::Kind;
use model::clock::ManualClock;
use uuid::Uuid;

use super::*;

/// What a source is told to answer.
#[derive(Clone, Copy, Debug)]
enum Says {
    Text(&'static str),
    Nothing,
    Outage,
    Denied,
    Never,
}

#[derive(Debug)]
struct Told {
    name: &'static str,
    says: Mutex<BTreeMap<Wanted, Says>>,
    asked: AtomicUsize,
    takes: Duration,
}

impl Told {
    fn new(name: &'static str, says: &[(Wanted, Says)]) -> Arc<Self> {
        let says = Mutex::new(says.iter().cloned().collect());
        Arc::new(Self { name, says, asked: AtomicUsize::new(0), takes: Duration::from_millis(20) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn say(&self, wanted: &Wanted, says: Says) {
        self.says.lock().unwrap().insert(wanted.clone(), says);
    }
}

#[async_trait]
impl Source for Told {
    fn name(&self) -> &str {
        self.name
    }

    fn keeps(&self, wanted: &Wanted) -> bool {
        !matches!(wanted, Wanted::Named(Reference::AvroFingerprint(_)))
    }

    async fn schema(&self, wanted: &Wanted) -> Result<Registered, Error> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let says = self.says.lock().unwrap().get(wanted).copied().unwrap_or(Says::Nothing);
        tokio::time::sleep(self.takes).await;
        let (registry, wanted) = (self.name.to_owned(), wanted.clone());
        match says {
            Says::Text(text) => Ok(schema(text)),
            Says::Nothing => Err(Error::NotFound { registries: registry, wanted }),
            Says::Outage => Err(Error::Outage { registry, wanted, message: "down".to_owned() }),
            Says::Denied => Err(Error::Denied { registry, wanted, message: "no".to_owned() }),
            Says::Never => std::future::pending().await,
        }
    }

    async fn versions(&self, name: &str) -> Result<Vec<u32>, Error> {
        self.schema(&Wanted::Latest(name.to_owned())).await?;
        let number = |wanted: &Wanted| match wanted {
            Wanted::Version(of, number) if of == name => Some(*number),
            _ => None,
        };
        Ok(self.says.lock().unwrap().keys().filter_map(number).collect())
    }
}

fn schema(text: &str) -> Registered {
    Registered { kind: Kind::Avro, text: text.to_owned(), imports: Vec::new(), version: None }
}

fn id(id: u32) -> Wanted {
    Reference::ConfluentId(id).into()
}

fn uuid(n: u128) -> Wanted {
    Reference::GlueVersion(Uuid::from_u128(n)).into()
}

struct World {
    registries: Registries,
    clock: Arc<ManualClock>,
}

fn world(sources: &[&Arc<Told>], limits: Limits) -> World {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(0)));
    let sources = sources.iter().map(|source| Arc::clone(source) as Arc<dyn Source>).collect();
    World { registries: Registries::new(sources, Arc::clone(&clock) as Arc<dyn Clock>, limits), clock }
}

impl World {
    async fn ask(&self, wanted: &Wanted) -> Result<String, Error> {
        self.registries.schema(wanted).await.map(|schema| schema.text.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn registries_are_asked_in_order() {
    use Says::{Denied, Never, Nothing, Outage, Text};
    let check = async |wanted: Wanted, first: Says, second: Says, expected: Result<&str, &str>| {
        let (a, b) = (Told::new("a", &[(wanted.clone(), first)]), Told::new("b", &[(wanted.clone(), second)]));
        let answer = world(&[&a, &b], Limits::default()).ask(&wanted).await;
        let seen = answer.as_ref().map(String::as_str).map_err(|error| match error {
            Error::NotFound { registries, .. } => {
                assert_eq!(registries, "the registries `a`, `b`");
                "not found"
            }
            Error::Outage { registry, .. } if registry == "a" => "a is down",
            Error::Outage { .. } => "b is down",
            Error::Denied { .. } => "denied",
            Error::TimedOut { registry, waited_ms, .. } if registry == "a" && *waited_ms == 10_000 => "a is late",
            _ => "something else",
        });
        assert_eq!(seen, expected, "{wanted:?}: {first:?}, {second:?}");
        b.asked()
    };
    // What means the same everywhere.
    assert_eq!(check(uuid(1), Text("a"), Text("b"), Ok("a")).await, 0);
    assert_eq!(check(uuid(1), Nothing, Text("b"), Ok("b")).await, 1);
    assert_eq!(check(uuid(1), Outage, Text("b"), Ok("b")).await, 1);
    assert_eq!(check(uuid(1), Never, Text("b"), Ok("b")).await, 1);
    assert_eq!(check(uuid(1), Outage, Nothing, Err("a is down")).await, 1);
    assert_eq!(check(uuid(1), Outage, Denied, Err("a is down")).await, 1);
    assert_eq!(check(uuid(1), Nothing, Outage, Err("b is down")).await, 1);
    assert_eq!(check(uuid(1), Never, Nothing, Err("a is late")).await, 1);
    assert_eq!(check(uuid(1), Nothing, Nothing, Err("not found")).await, 3);
    // What doesn't.
    for wanted in [id(42), Wanted::Latest("s".to_owned())] {
        let check = async |first, second, expected| check(wanted.clone(), first, second, expected).await;
        assert_eq!(check(Text("a"), Text("b"), Ok("a")).await, 0);
        assert_eq!(check(Nothing, Text("b"), Ok("b")).await, 1);
        assert_eq!(check(Outage, Text("b"), Err("a is down")).await, 0);
        assert_eq!(check(Denied, Text("b"), Err("denied")).await, 0);
        assert_eq!(check(Never, Text("b"), Err("a is late")).await, 0);
        assert_eq!(check(Nothing, Nothing, Err("not found")).await, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_no_registry_goes_by_is_not_asked_for() {
    let a = Told::new("a", &[]);
    let error = world(&[&a], Limits::default()).ask(&Reference::AvroFingerprint(1).into()).await.unwrap_err();
    assert_eq!(a.asked(), 0);
    assert!(error.to_string().contains("none of those named keeps"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn answers_last_as_long_as_they_are_true() {
    let latest = Wanted::Latest("s".to_owned());
    let a = Told::new("a", &[(id(1), Says::Text("one")), (latest.clone(), Says::Text("old"))]);
    let world = world(&[&a], Limits::default());
    for _ in 0..3 {
        assert_eq!(world.ask(&id(1)).await, Ok("one".to_owned()));
        world.clock.advance_micros(365 * 86_400 * 1_000_000);
    }
    assert_eq!(a.asked(), 1, "a record's name never means another schema");

    assert_eq!(world.ask(&latest).await, Ok("old".to_owned()));
    a.say(&latest, Says::Text("new"));
    world.clock.advance_micros(59_999_999);
    assert_eq!(world.ask(&latest).await, Ok("old".to_owned()));
    world.clock.advance_micros(1);
    assert_eq!(world.ask(&latest).await, Ok("new".to_owned()));

    let before = a.asked();
    assert!(matches!(world.ask(&id(2)).await, Err(Error::NotFound { .. })));
    assert!(matches!(world.ask(&id(2)).await, Err(Error::NotFound { .. })));
    assert_eq!(a.asked() - before, 3);
    a.say(&id(2), Says::Text("two"));
    world.clock.advance_micros(10_000_000);
    assert_eq!(world.ask(&id(2)).await, Ok("two".to_owned()));

    // A failure is nothing to remember.
    a.say(&id(3), Says::Outage);
    assert!(matches!(world.ask(&id(3)).await, Err(Error::Outage { .. })));
    a.say(&id(3), Says::Text("three"));
    assert_eq!(world.ask(&id(3)).await, Ok("three".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_schema_on_its_way_is_waited_for() {
    let a = Told::new("a", &[]);
    let world = world(&[&a], Limits::default());
    let wanted = id(1);
    let (answer, ()) = tokio::join!(world.ask(&wanted), async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        a.say(&wanted, Says::Text("late"));
    });
    assert_eq!((answer, a.asked()), (Ok("late".to_owned()), 3));
}

#[tokio::test(start_paused = true)]
async fn one_look_up_serves_all_who_wait_for_it() {
    let a = Told::new("a", &[(id(1), Says::Text("one")), (id(2), Says::Outage), (id(3), Says::Text("three"))]);
    let world = world(&[&a], Limits::default());
    let (known, failing) = (id(1), id(2));
    let (first, second, third) = tokio::join!(world.ask(&known), world.ask(&known), world.ask(&known));
    assert_eq!((first, second, third, a.asked()), (Ok("one".into()), Ok("one".into()), Ok("one".into()), 1));
    let (first, second) = tokio::join!(world.ask(&failing), world.ask(&failing));
    assert!(first.is_err() && first == second);
    assert_eq!(a.asked(), 2);
    // Whoever asked first is given up; who waits asks again.
    let wanted = id(3);
    let given_up = tokio::time::timeout(Duration::from_millis(5), world.ask(&wanted));
    let (given_up, answer) = tokio::join!(given_up, world.ask(&wanted));
    assert!(given_up.is_err());
    assert_eq!((answer, a.asked()), (Ok("three".to_owned()), 4));
    assert!(world.registries.memory().under_way.is_empty());
}

#[tokio::test(start_paused = true)]
async fn look_ups_that_were_given_up_are_cleared_away() {
    let a = Told::new("a", &[]);
    let world = world(&[&a], Limits::default());
    for n in 0..1000 {
        assert!(tokio::time::timeout(Duration::from_millis(1), world.ask(&id(n))).await.is_err());
    }
    assert!(world.registries.memory().under_way.len() <= GIVEN_UP_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_batchs_schemas_are_looked_up_together() {
    let says = [(id(1), Says::Text("one")), (id(2), Says::Text("two")), (id(4), Says::Denied)];
    let a = Told::new("a", &says);
    let world = world(&[&a], Limits::default());
    let began = tokio::time::Instant::now();
    let found = world.registries.schemas((1..=3).chain(10..15).map(id).collect()).await.unwrap();
    // Three tries of 20 ms and two pauses, for all of them.
    assert_eq!(began.elapsed(), Duration::from_millis(1060));
    let known = |n| found[&id(n)].as_ref().map(|schema| schema.text.as_str()).ok();
    assert_eq!((found.len(), known(1), known(2), known(3), known(14)), (8, Some("one"), Some("two"), None, None));
    let failed = world.registries.schemas((1..=4).map(id).collect()).await;
    assert!(matches!(failed, Err(Error::Denied { .. })), "{failed:?}");
    assert_eq!(world.registries.schemas(BTreeSet::new()).await, Ok(BTreeMap::new()));
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded() {
    let texts: Vec<_> = (0..6).map(|n| (id(n), Says::Text("0123456789"))).collect();
    let a = Told::new("a", &texts);
    let check = async |limits: Limits, kept: usize| {
        let world = world(&[&a], limits);
        for n in [0, 1, 2, 0, 3, 0, 4, 0, 5] {
            world.ask(&id(n)).await.unwrap();
        }
        {
            let memory = world.registries.memory();
            assert_eq!((memory.answers.len(), memory.text_bytes), (kept, 10 * kept));
        }
        // What is used often stays.
        let before = a.asked();
        world.ask(&id(0)).await.unwrap();
        assert_eq!(a.asked() - before, usize::from(kept == 0));
    };
    check(Limits { answers_max: NonZeroUsize::new(2).unwrap(), ..Limits::default() }, 2).await;
    check(Limits { text_bytes_max: 39, ..Limits::default() }, 3).await;
    check(Limits { text_bytes_max: 9, ..Limits::default() }, 0).await;
}

/// Names that nobody knows wait for their tries together: whoever sends many of them stops nobody for long.
#[tokio::test(start_paused = true)]
async fn many_that_nobody_knows_take_as_long_as_one() {
    let told = Told::new("a", &[]);
    let limits = Limits { at_once: 100, ..Limits::default() };
    let world = world(&[&told], limits);
    let began = tokio::time::Instant::now();
    let answers = world.registries.schemas((0..1000).map(id).collect()).await.unwrap();
    assert!(answers.len() == 1000 && answers.values().all(|answer| matches!(answer, Err(Error::NotFound { .. }))));
    assert_eq!(told.asked(), 3000);
    // Ten rounds of a hundred for each of three tries, and two pauses: by tokio's clock, which waits for nothing else.
    let least = told.takes * 30;
    assert!(began.elapsed() >= least && began.elapsed() < least + limits.pause * 3, "{:?}", began.elapsed());
    // Of a kind of name that no registry keeps, nobody is asked, and nothing waited for.
    let began = tokio::time::Instant::now();
    let nobodys = Reference::AvroFingerprint(7).into();
    assert!(matches!(world.ask(&nobodys).await, Err(Error::NotFound { .. })));
    assert_eq!((told.asked(), began.elapsed()), (3000, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn versions_are_those_of_the_first_registry_that_knows_the_name() {
    use Says::{Denied, Nothing, Outage, Text};
    let version = |number| Wanted::Version("n".to_owned(), number);
    let latest = Wanted::Latest("n".to_owned());
    let (a, b) = (
        Told::new("a", &[(version(9), Text("another's"))]),
        Told::new(
            "b",
            &[
                (latest.clone(), Text("ten")),
                (version(10), Text("ten")),
                (version(2), Text("two")),
                (version(3), Nothing),
                (version(1), Text("one")),
            ],
        ),
    );
    let of = async |most| {
        let found = world(&[&a, &b], Limits::default()).registries.versions("n", most).await.unwrap();
        found.into_iter().map(|(number, schema)| format!("{number} {}", schema.text)).collect::<Vec<_>>()
    };
    assert_eq!(of(100).await, ["10 ten", "2 two", "1 one"], "the newest first, and what is gone is left out");
    assert_eq!(of(2).await, ["10 ten"]);
    for (says, expected) in [(Outage, "could not be asked"), (Denied, "could not be asked"), (Nothing, "not known")] {
        b.say(&latest, says);
        let error = world(&[&a, &b], Limits::default()).registries.versions("n", 100).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
