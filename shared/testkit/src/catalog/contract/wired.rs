//! What becomes of a commit where the wire breaks.

use std::sync::Arc;

use model::failure::Kind;
use table::catalog::{Catalog, Error, Loaded, TableName};

use super::super::wire::{Mishap, Proxy};
use super::race::appending;
use super::{Bench, Verdict, commit, kind_of, live_files, load, made, panic_with};

/// Where no bytes go between the catalog and a service.
const NO_WIRE: Verdict = Verdict::Otherwise("no wire");

/// A table, a handle on it straight to the service, and one that passes a proxy.
struct Scene {
    near: Arc<dyn Catalog>,
    far: Arc<dyn Catalog>,
    proxy: Proxy,
    name: TableName,
    base: Loaded,
}

impl Scene {
    async fn of(bench: &dyn Bench, table: &str) -> Option<Self> {
        let (near, name, base) = made(bench, table).await;
        let proxy = proxy(bench).await?;
        let far = bench.through(proxy.address()).await?;
        Some(Self { near, far, proxy, name, base })
    }

    fn path(&self, name: &str) -> String {
        format!("{}/data/{name}.parquet", self.base.metadata.location())
    }

    /// Commits a file on the base, through what happens to it.
    async fn send(&self, file: &str, bench: &dyn Bench, mishap: Mishap) -> Option<Kind> {
        let attempt = appending(&self.base, &self.path(file), bench, 1).await;
        let before = self.proxy.commits();
        self.proxy.next(mishap);
        let outcome = commit(self.far.as_ref(), &self.base, &attempt).await;
        assert_eq!(self.proxy.commits() - before, 1, "one attempt: {outcome:?}");
        kind_of(outcome)
    }

    async fn now(&self) -> Loaded {
        load(self.near.as_ref(), &self.name).await
    }

    async fn files(&self, bench: &dyn Bench) -> Vec<String> {
        let now = self.now().await;
        assert_eq!(now.metadata.snapshots().len(), table::snapshot::ancestry(&now.metadata).count());
        live_files(&now, &bench.io()).await
    }

    /// Commits a file on what the handle that lost something finds now.
    async fn goes_on(&self, file: &str, bench: &dyn Bench) {
        let now = load(self.far.as_ref(), &self.name).await;
        let attempt = appending(&now, &self.path(file), bench, 2).await;
        assert_eq!(kind_of(commit(self.far.as_ref(), &now, &attempt).await), None);
    }
}

/// What stands between a catalog and its service; nothing where there is no wire.
pub(super) async fn proxy(bench: &dyn Bench) -> Option<Proxy> {
    match Proxy::start(bench.wire()?).await {
        Ok(proxy) => Some(proxy),
        Err(e) => panic_with("start a proxy", &Error::caused(Kind::Bug, "proxy", e)),
    }
}

/// The service never had it: nobody can know, and nothing is there.
pub(super) async fn lost_before(bench: &dyn Bench) -> Verdict {
    let Some(scene) = Scene::of(bench, "lost_before").await else { return NO_WIRE };
    assert_eq!(scene.send("lost", bench, Mishap::RequestLost).await, Some(Kind::OutcomeUnknown));
    assert_eq!(scene.now().await.metadata_location, scene.base.metadata_location);
    scene.goes_on("next", bench).await;
    assert_eq!(scene.files(bench).await, [scene.path("next")]);
    Verdict::Kept
}

/// The service did it, and its answer is lost: nobody knows before the look, which finds it once.
pub(super) async fn lost_after(bench: &dyn Bench) -> Verdict {
    let Some(scene) = Scene::of(bench, "lost_after").await else { return NO_WIRE };
    assert_eq!(scene.send("done", bench, Mishap::AnswerLost).await, Some(Kind::OutcomeUnknown));
    assert_eq!(scene.files(bench).await, [scene.path("done")]);
    scene.goes_on("next", bench).await;
    assert_eq!(scene.files(bench).await, [scene.path("done"), scene.path("next")]);
    Verdict::Kept
}

/// The commit lands after the look that did not find it. A second plan, under another name, is made from that look: whichever comes
/// first stands, and the other is refused.
pub(super) async fn late(bench: &dyn Bench) -> Verdict {
    let Some(first) = Scene::of(bench, "late_then_second").await else { return NO_WIRE };
    assert_eq!(first.send("late", bench, Mishap::Late).await, Some(Kind::OutcomeUnknown));
    let look = first.now().await;
    assert!(look.metadata.current_snapshot().is_none());
    let second = appending(&look, &first.path("second"), bench, 2).await;
    arrive(&first.proxy).await;
    assert_eq!(kind_of(commit(first.near.as_ref(), &look, &second).await), Some(Kind::Conflict));
    assert_eq!(first.files(bench).await, [first.path("late")]);

    let Some(last) = Scene::of(bench, "second_then_late").await else { return NO_WIRE };
    assert_eq!(last.send("late", bench, Mishap::Late).await, Some(Kind::OutcomeUnknown));
    let look = last.now().await;
    let second = appending(&look, &last.path("second"), bench, 2).await;
    assert_eq!(kind_of(commit(last.near.as_ref(), &look, &second).await), None);
    arrive(&last.proxy).await;
    assert_eq!(last.files(bench).await, [last.path("second")]);
    Verdict::Kept
}

async fn arrive(proxy: &Proxy) {
    if let Err(e) = proxy.arrive().await {
        panic_with::<()>("bring what is late", &Error::caused(Kind::Bug, "proxy", e));
    }
}
