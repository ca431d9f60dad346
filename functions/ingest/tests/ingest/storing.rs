//! Storing under faults: refusals, lost answers, deadlines, crashes, late minutes.

use arrow::array::cast::AsArray;
use arrow::datatypes::TimestampMicrosecondType;
use ingest::Outcome;
use model::clock::Clock;
use model::failure::Kind;
use serde_json::{Value, json};
use staging::key::StagedKey;
use staging::object::Object;

use crate::memory::Answer;
use crate::shop::{A1, Shop, event, orders, record, rows};

/// Good and bad records together, so that an invocation stores two objects.
pub(crate) fn mixed() -> Value {
    event(json!({"orders-0": [record(1, A1), record(2, b"\xff")], "orders-1": [record(8, b"\x10\x02")]}))
}

/// What a redelivery of [`mixed`] must leave: one object and one dead letter, and both under one hash.
fn one_of_each(shop: &Shop) {
    let key = shop.objects().into_keys().next().unwrap();
    let keys: Vec<String> = shop.store.under("").into_keys().collect();
    assert_eq!(keys, [key.dead_letters().to_string(), key.to_string()]);
    assert_eq!(orders(&shop.object()).len(), 2);
    assert_eq!(shop.letters().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_put_that_can_succeed_later_is_tried_until_it_does() {
    for answers in [
        vec![Answer::Refuse],
        vec![Answer::Refuse, Answer::Refuse, Answer::LoseBefore, Answer::Refuse],
        vec![Answer::LoseBefore],
        vec![Answer::LoseAfter],
        vec![Answer::Store, Answer::LoseAfter],
        vec![Answer::Store, Answer::Refuse, Answer::LoseAfter, Answer::LoseBefore],
    ] {
        let shop = Shop::new();
        shop.store.script(answers.clone());
        let outcome = shop.handle(&mixed()).await.unwrap();
        one_of_each(&shop);
        assert_eq!(outcome.already_stored, answers.len() > 1 && answers.contains(&Answer::LoseAfter), "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_put_that_does_not_succeed_by_the_deadline_fails_the_invocation() {
    let check = |answer: Answer, kind: Kind| async move {
        let shop = Shop::new();
        shop.store.always(answer);
        let before = shop.clock.now();
        let error = shop.handle_within(&mixed(), 3).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{answer:?}: {error}");
        let took = shop.clock.now().micros() - before.micros();
        assert!(took <= 3_000_000, "{answer:?}: {took}");
        // The redelivery, once the store works again.
        shop.store.always(Answer::Store);
        shop.handle(&mixed()).await.unwrap();
        one_of_each(&shop);
    };
    check(Answer::Refuse, Kind::Retry).await;
    check(Answer::LoseBefore, Kind::OutcomeUnknown).await;
    check(Answer::LoseAfter, Kind::OutcomeUnknown).await;
    check(Answer::Hang, Kind::OutcomeUnknown).await;
    check(Answer::Deny, Kind::Misconfigured).await;
}

#[tokio::test(start_paused = true)]
async fn no_attempt_starts_after_the_deadline() {
    let shop = Shop::new();
    let error = shop.handle_within(&mixed(), 0).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Retry);
    assert!(shop.store.under("").is_empty());
}

/// I1: whatever dies between the steps, nothing is answered before both are durable, and a redelivery adds nothing.
#[tokio::test(start_paused = true)]
async fn a_crash_between_the_steps_leaves_what_a_redelivery_completes() {
    // Dead letters stored, the object not.
    let shop = Shop::new();
    shop.store.script(vec![Answer::Store, Answer::Deny]);
    shop.handle(&mixed()).await.unwrap_err();
    assert_eq!((shop.objects().len(), shop.letters().len()), (0, 1));
    let outcome = shop.handle(&mixed()).await.unwrap();
    assert!(!outcome.already_stored);
    one_of_each(&shop);
    // Both stored, the answer lost on its way to Lambda.
    let again = shop.handle(&mixed()).await.unwrap();
    assert!(again.already_stored);
    assert_eq!(Outcome { already_stored: false, ..again }, outcome);
    one_of_each(&shop);
}

#[tokio::test(start_paused = true)]
async fn a_redelivery_in_a_later_minute_covers_the_same_under_the_same_hash() {
    let shop = Shop::new();
    shop.handle(&mixed()).await.unwrap();
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    let outcome = shop.handle(&mixed()).await.unwrap();
    assert!(!outcome.already_stored);
    let objects: Vec<(StagedKey, Object)> = shop.objects().into_iter().collect();
    let [(first, a), (second, b)] = objects.as_slice() else { panic!("{objects:?}") };
    assert_eq!(first.minute.plus(1), second.minute);
    assert_eq!(first.hash, second.hash);
    assert_eq!(a.footer().coverage, b.footer().coverage);
    assert_eq!(orders(a), orders(b));
}

#[tokio::test(start_paused = true)]
async fn what_the_store_answers_minutes_later_is_written_again_under_a_newer_minute() {
    // The process was paused before the put of dead letters, or before that of the object.
    for before in [vec![], vec![Answer::Store]] {
        let shop = Shop::new();
        let start = shop.clock.now().minute();
        shop.store.script(before.into_iter().chain([Answer::Pause(400)]).collect());
        let outcome = shop.handle_within(&mixed(), 3600).await.unwrap();
        let key: StagedKey = outcome.staged[0].parse().unwrap();
        assert_eq!(key.minute, start.plus(6));
        let objects = shop.objects();
        let object = objects.get(&key).unwrap();
        assert_eq!(object.footer().minute, key.minute);
        let batch = rows(object);
        let ingested = batch.column_by_name("_ingested_at").unwrap();
        assert_eq!(ingested.as_primitive::<TimestampMicrosecondType>().value(0), key.minute.start().micros());
        assert!(shop.store.under("").contains_key(&key.dead_letters().to_string()));
    }
    // Five minutes past are not yet late.
    let shop = Shop::new();
    let start = shop.clock.now().minute();
    shop.store.script(vec![Answer::Store, Answer::Pause(5 * 60 - 10)]);
    let outcome = shop.handle_within(&mixed(), 3600).await.unwrap();
    assert_eq!(outcome.staged[0].parse::<StagedKey>().unwrap().minute, start);
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_clock_is_behind_takes_the_stores_minute() {
    let shop = Shop::new();
    shop.store.ahead(2 * 60 * 60);
    let outcome = shop.handle(&mixed()).await.unwrap();
    let key: StagedKey = outcome.staged[0].parse().unwrap();
    assert_eq!(key.minute, shop.clock.now().minute().plus(120));
}
