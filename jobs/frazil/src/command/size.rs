//! `frazil size`: what a Kafka cluster takes.

use serde::Serialize;

use crate::Session;
use crate::arguments;
use crate::brokers::{Cluster, Instance, Limit, VOLUME_MB_PER_SECOND, has_room, known, names, rounded};
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;

/// The document's body.
#[derive(Debug, Serialize)]
struct Body {
    instance: String,
    /// Where the size's figures are from.
    from: &'static str,
    brokers: u64,
    replication: u64,
    consumer_groups: u64,
    /// What producers may write, before copies.
    recommended_mb_per_s: f64,
    max_mb_per_s: f64,
    /// The name of the least limit.
    bound_by: &'static str,
    limits: Vec<Limit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<Partitions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage: Option<Storage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wanted: Option<Wanted>,
    /// What is not recommended of what was asked for.
    exceeded: Vec<&'static str>,
    remarks: Vec<String>,
}

/// Partitions of a broker, copies counted.
#[derive(Debug, Serialize)]
struct Partitions {
    per_broker: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    recommended_per_broker: Option<u64>,
}

/// What a broker's volume holds.
#[derive(Debug, Serialize)]
struct Storage {
    /// At what rate: the one that is wanted, else the recommended one.
    mb_per_s: f64,
    hours: f64,
    gib_per_broker: f64,
}

/// A rate that somebody wants to write.
#[derive(Debug, Serialize)]
struct Wanted {
    mb_per_s: f64,
    /// Brokers of this size that carry it, in whole zones.
    brokers: u64,
}

pub(crate) fn run(arguments: &arguments::Size, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let body = sized(arguments)?;
    session.output.reply("size", &body, human)?;
    Ok(if body.exceeded.is_empty() { Exit::Done } else { Exit::No })
}

fn sized(arguments: &arguments::Size) -> Result<Body, Failure> {
    let &arguments::Size { brokers, replication, consumer_groups, zones, mb_per_second, .. } = arguments;
    if replication > brokers {
        let message = format!("{replication} copies were asked for, and {brokers} brokers hold no more than {brokers}");
        return Err(Failure::usage("size.replication", message).remedy("give more --brokers, or a lower --replication"));
    }
    let instance = known(&arguments.instance);
    let ebs = arguments.ebs_mb_per_second.or(instance.map(|instance| instance.ebs_mb_per_second));
    let network = arguments.network_mb_per_second.or(instance.map(|instance| instance.network_mb_per_second));
    let (Some(ebs_mb_per_second), Some(network_mb_per_second)) = (ebs, network) else {
        let message = format!("frazil does not know what a broker of size `{}` carries", arguments.instance);
        return Err(Failure::usage("size.instance", message).at("--instance").remedy(format!(
            "give --ebs-mb-per-second and --network-mb-per-second as EC2 documents them, or one of {}",
            names()
        )));
    };
    let cluster = Cluster {
        brokers,
        replication,
        consumer_groups,
        storage_mb_per_second: arguments.storage_mb_per_second.unwrap_or(VOLUME_MB_PER_SECOND),
        ebs_mb_per_second,
        network_mb_per_second,
        zones,
    };
    let recommended = cluster.recommended();
    let (max_mb_per_s, bound_by) = cluster.bound().map_or((0.0, ""), |limit| (limit.mb_per_s, limit.name));
    let mut exceeded = Vec::new();
    let wanted = mb_per_second.map(|mb_per_s| {
        if mb_per_s > recommended {
            exceeded.push("throughput");
        }
        Wanted { mb_per_s, brokers: cluster.brokers_for(mb_per_s) }
    });
    let partitions = arguments.partitions.map(|partitions| {
        let per_broker = cluster.partitions_per_broker(partitions);
        let recommended_per_broker = instance.map(|instance| instance.partitions);
        if recommended_per_broker.is_some_and(|most| per_broker > most) {
            exceeded.push("partitions");
        }
        Partitions { per_broker, recommended_per_broker }
    });
    let storage = arguments.retention_hours.map(|hours| {
        let mb_per_s = mb_per_second.unwrap_or(recommended);
        let gib = cluster.storage_gib(mb_per_s, hours);
        if !has_room(gib) {
            exceeded.push("storage");
        }
        Storage { mb_per_s: rounded(mb_per_s), hours, gib_per_broker: rounded(gib) }
    });
    let from = match (arguments.ebs_mb_per_second, arguments.network_mb_per_second, instance) {
        (None, None, Some(Instance { from, .. })) => from,
        _ => "given",
    };
    Ok(Body {
        instance: arguments.instance.clone(),
        from,
        brokers,
        replication,
        consumer_groups,
        recommended_mb_per_s: rounded(recommended),
        max_mb_per_s: rounded(max_mb_per_s),
        bound_by,
        limits: cluster.limits(),
        partitions,
        storage,
        wanted,
        exceeded,
        remarks: cluster.remarks(),
    })
}

fn human(body: &Body) -> String {
    let mut lines = vec![format!(
        "{} brokers {}, {} copies, {} consumer groups: {} MB/s recommended, 80 % of {} MB/s, which {} bounds",
        body.brokers,
        body.instance,
        body.replication,
        body.consumer_groups,
        body.recommended_mb_per_s,
        body.max_mb_per_s,
        body.bound_by
    )];
    lines.extend(body.limits.iter().map(|limit| format!("  {}: {}", limit.name, limit.formula)));
    lines.push(format!("  figures of the size: {}", body.from));
    if let Some(wanted) = &body.wanted {
        let verdict = if body.exceeded.contains(&"throughput") { "more than recommended" } else { "within it" };
        lines.push(format!(
            "{} MB/s are {verdict}; {} brokers of this size carry them",
            wanted.mb_per_s, wanted.brokers
        ));
    }
    if let Some(Partitions { per_broker, recommended_per_broker }) = &body.partitions {
        let most = match recommended_per_broker {
            Some(most) if per_broker > most => format!("more than the {most} that AWS recommends"),
            Some(most) => format!("AWS recommends {most} at most"),
            None => "what AWS recommends for this size is not known here".to_owned(),
        };
        lines.push(format!("{per_broker} partitions a broker, copies counted: {most}"));
    }
    if let Some(Storage { mb_per_s, hours, gib_per_broker }) = &body.storage {
        let most = match has_room(*gib_per_broker) {
            true => "a volume has at most 16,384 GiB; leave room, 15 % at least",
            false => "more than the 16,384 GiB that a volume has",
        };
        lines.push(format!("{gib_per_broker} GiB a broker for {hours} h at {mb_per_s} MB/s: {most}"));
    }
    lines.extend(body.remarks.iter().map(|remark| format!("note: {remark}")));
    lines.push("note: an upper bound, for even load and groups that keep up; measure with your own records".to_owned());
    lines.join("\n")
}
