//! What a service refuses though nothing is wrong with the commit.

use model::failure::Kind;

use super::super::wire::{Mishap, Refusal};
use super::wired::proxy;
use super::{Bench, Verdict, kind_of, load, made, set};

/// Nothing is done and nothing is tried again; the kind says whether time helps or a person has to.
pub(super) async fn refused(bench: &dyn Bench, refusal: Refusal) -> Verdict {
    let (near, name, base) = made(bench, &format!("refused_{refusal:?}").to_lowercase()).await;
    let expected = match refusal {
        Refusal::Throttled => Kind::Retry,
        Refusal::Denied => Kind::Misconfigured,
    };
    let said = bench.wire().and_then(|wire| (wire.refusal)(refusal));
    match (said, proxy(bench).await) {
        (Some(said), Some(proxy)) => {
            let Some(far) = bench.through(proxy.address()).await else { return Verdict::Otherwise("no wire") };
            proxy.next(Mishap::Answered(said));
            assert_eq!(kind_of(far.commit(&base, vec![], set("a", "1")).await), Some(expected));
            assert_eq!(proxy.commits(), 1, "one attempt");
        }
        _ => match bench.refusing(refusal).await {
            Some(catalog) => {
                assert_eq!(kind_of(catalog.commit(&base, vec![], set("a", "1")).await), Some(expected));
            }
            None => return Verdict::Otherwise("no service"),
        },
    }
    assert_eq!(load(near.as_ref(), &name).await.metadata_location, base.metadata_location);
    Verdict::Kept
}
