//! How much a Kafka cluster of Amazon MSK's standard brokers takes: the sizing of AWS's article on right-sizing clusters. Every byte that is
//! written comes to a broker's volume once for each copy, and leaves its network for the other copies and for each group that reads at
//! the end of the log. The least of the three limits counts, and four fifths of it are recommended: an upper bound, for even load.

use serde::Serialize;

/// What is recommended of what is possible.
const RECOMMENDED: f64 = 0.8;
/// MB a second of a volume of more than 334 GB, nothing provisioned.
pub(crate) const VOLUME_MB_PER_SECOND: f64 = 250.0;
/// The most that can be provisioned for a volume.
const VOLUME_MB_PER_SECOND_MAX: f64 = 1000.0;
/// The largest volume of a broker.
const VOLUME_GIB_MAX: f64 = 16_384.0;
const GIB: f64 = 1_073_741_824.0;
/// Brokers of a cluster under ZooKeeper and under KRaft, unless AWS raises it.
const BROKERS_ZOOKEEPER: u64 = 30;
const BROKERS_KRAFT: u64 = 60;

const ARTICLE: &str = "AWS's article on right-sizing Kafka clusters";
const EC2: &str = "EC2's documented baseline; not in AWS's article";

/// One size of broker: MB a second between it and its volume, and of its network; partitions with their copies that are recommended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Instance {
    pub(crate) name: &'static str,
    pub(crate) ebs_mb_per_second: f64,
    pub(crate) network_mb_per_second: f64,
    pub(crate) partitions: u64,
    pub(crate) from: &'static str,
}

const fn instance(name: &'static str, ebs: f64, network: f64, partitions: u64, from: &'static str) -> Instance {
    Instance { name, ebs_mb_per_second: ebs, network_mb_per_second: network, partitions, from }
}

static INSTANCES: [Instance; 7] = [
    instance("m5.large", 81.25, 96.0, 1000, ARTICLE),
    instance("m5.xlarge", 143.75, 160.0, 1000, ARTICLE),
    instance("m5.2xlarge", 287.5, 320.0, 2000, ARTICLE),
    instance("m5.4xlarge", 593.75, 640.0, 4000, ARTICLE),
    instance("m5.8xlarge", 850.0, 1250.0, 4000, EC2),
    instance("m5.12xlarge", 1187.5, 1500.0, 4000, EC2),
    instance("m5.16xlarge", 1700.0, 2500.0, 4000, EC2),
];

/// A size by name, with or without `kafka.` before it.
pub(crate) fn known(name: &str) -> Option<Instance> {
    let name = name.strip_prefix("kafka.").unwrap_or(name);
    INSTANCES.iter().copied().find(|instance| instance.name == name)
}

/// The names of all sizes.
pub(crate) fn names() -> String {
    INSTANCES.iter().map(|instance| instance.name).collect::<Vec<_>>().join(", ")
}

/// What a cluster is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cluster {
    pub(crate) brokers: u64,
    pub(crate) replication: u64,
    pub(crate) consumer_groups: u64,
    pub(crate) storage_mb_per_second: f64,
    pub(crate) ebs_mb_per_second: f64,
    pub(crate) network_mb_per_second: f64,
    pub(crate) zones: u64,
}

/// One limit of what may be written to the cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Limit {
    pub(crate) name: &'static str,
    pub(crate) mb_per_s: f64,
    pub(crate) formula: String,
}

impl Cluster {
    /// Every limit: none of the network where nobody reads and nothing is copied.
    pub(crate) fn limits(&self) -> Vec<Limit> {
        let (brokers, copies) = (self.brokers as f64, self.replication as f64);
        let limit = |name, mb: f64, times: f64, what: String| {
            let mb_per_s = mb * brokers / times;
            Limit {
                name,
                mb_per_s,
                formula: format!("{mb} MB/s × {brokers} brokers ÷ {what} = {} MB/s", rounded(mb_per_s)),
            }
        };
        let by_copies = || format!("{copies} copies");
        let mut limits = vec![
            limit("storage", self.storage_mb_per_second, copies, by_copies()),
            limit("ebs_network", self.ebs_mb_per_second, copies, by_copies()),
        ];
        let leaves = self.consumer_groups as f64 + copies - 1.0;
        if leaves > 0.0 {
            let what = format!("({} consumer groups + {copies} copies − 1)", self.consumer_groups);
            limits.push(limit("ec2_network", self.network_mb_per_second, leaves, what));
        }
        limits
    }

    /// The least limit.
    pub(crate) fn bound(&self) -> Option<Limit> {
        self.limits().into_iter().min_by(|a, b| a.mb_per_s.total_cmp(&b.mb_per_s))
    }

    /// MB a second that are recommended: the producers', before copies.
    pub(crate) fn recommended(&self) -> f64 {
        self.bound().map_or(0.0, |limit| limit.mb_per_s * RECOMMENDED)
    }

    /// Brokers that carry a rate, in whole zones, and no fewer than there are copies.
    pub(crate) fn brokers_for(&self, mb_per_second: f64) -> u64 {
        let one = Self { brokers: 1, ..*self }.recommended();
        let brokers = ((mb_per_second / one) - 1e-9).ceil().max(1.0) as u64;
        brokers.max(self.replication).div_ceil(self.zones) * self.zones
    }

    /// GiB of each broker's volume that a retention takes at a rate.
    pub(crate) fn storage_gib(&self, mb_per_second: f64, hours: f64) -> f64 {
        mb_per_second * 1e6 * self.replication as f64 * hours * 3600.0 / self.brokers as f64 / GIB
    }

    /// Partitions of a broker, copies counted, of so many in all topics.
    pub(crate) fn partitions_per_broker(&self, partitions: u64) -> u64 {
        (partitions * self.replication).div_ceil(self.brokers)
    }

    /// What does not go as it is said.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.brokers.is_multiple_of(self.zones) {
            let (brokers, zones) = (self.brokers, self.zones);
            remarks.push(format!(
                "{brokers} brokers do not divide into {zones} zones: load is uneven, and the limits are too high"
            ));
        }
        if self.brokers > BROKERS_ZOOKEEPER {
            remarks.push(format!(
                "a cluster has at most {BROKERS_ZOOKEEPER} brokers under ZooKeeper and {BROKERS_KRAFT} under KRaft, unless AWS raises it"
            ));
        }
        if self.storage_mb_per_second == VOLUME_MB_PER_SECOND {
            remarks.push(
                "250 MB/s is what a volume of more than 334 GB sustains: a smaller one reaches it in bursts".to_owned(),
            );
        }
        if self.storage_mb_per_second > VOLUME_MB_PER_SECOND_MAX {
            remarks.push(format!("no more than {VOLUME_MB_PER_SECOND_MAX} MB/s can be provisioned for a volume"));
        }
        remarks
    }
}

/// Whether a broker's volume can be so large.
pub(crate) fn has_room(gib: f64) -> bool {
    gib <= VOLUME_GIB_MAX
}

/// To a hundredth, as it is shown.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str, storage: f64, brokers: u64, groups: u64) -> Cluster {
        let Instance { ebs_mb_per_second, network_mb_per_second, .. } = known(name).unwrap();
        Cluster {
            brokers,
            replication: 3,
            consumer_groups: groups,
            storage_mb_per_second: storage,
            ebs_mb_per_second,
            network_mb_per_second,
            zones: 3,
        }
    }

    /// The article's tables: what it recommends, in whole MB/s.
    #[test]
    fn the_articles_figures_come_out() {
        for (name, storage, brokers, groups, recommended) in [
            ("m5.large", 250.0, 3, 2, 58),
            ("m5.xlarge", 250.0, 3, 2, 96),
            ("m5.2xlarge", 250.0, 3, 2, 192),
            ("m5.4xlarge", 250.0, 3, 2, 200),
            ("kafka.m5.4xlarge", 480.0, 3, 2, 384),
            ("m5.8xlarge", 850.0, 3, 2, 680),
            ("m5.12xlarge", 1000.0, 3, 2, 800),
            ("m5.16xlarge", 1000.0, 3, 2, 800),
            ("m5.large", 250.0, 3, 0, 65),
            ("m5.2xlarge", 250.0, 3, 0, 200),
            ("m5.4xlarge", 250.0, 3, 0, 200),
            ("m5.large", 250.0, 3, 4, 38),
            ("m5.2xlarge", 250.0, 3, 4, 128),
            ("m5.4xlarge", 250.0, 3, 4, 200),
            ("m5.large", 250.0, 3, 6, 29),
            ("m5.2xlarge", 250.0, 3, 6, 96),
            ("m5.4xlarge", 250.0, 3, 6, 192),
            ("m5.large", 250.0, 6, 2, 115),
            ("m5.2xlarge", 250.0, 6, 2, 384),
            ("m5.4xlarge", 250.0, 6, 2, 400),
            ("m5.large", 250.0, 9, 2, 173),
            ("m5.2xlarge", 250.0, 9, 2, 576),
            ("m5.4xlarge", 250.0, 9, 2, 600),
        ] {
            let cluster = cluster(name, storage, brokers, groups);
            assert_eq!(cluster.recommended().round() as u64, recommended, "{name}, {brokers} brokers, {groups} groups");
        }
    }

    #[test]
    fn the_limit_that_binds_is_named() {
        let bound = |name: &str, storage, groups| cluster(name, storage, 3, groups).bound().unwrap().name;
        assert_eq!(bound("m5.large", 250.0, 2), "ec2_network");
        assert_eq!(bound("m5.large", 250.0, 0), "ebs_network");
        assert_eq!(bound("m5.4xlarge", 250.0, 2), "storage");
        // One copy that nobody reads leaves no broker.
        let alone = Cluster { replication: 1, ..cluster("m5.large", 250.0, 3, 0) };
        assert_eq!(alone.limits().len(), 2);
        assert_eq!(alone.recommended(), 195.0);
        let limits = cluster("m5.large", 250.0, 3, 2).limits();
        assert_eq!(limits[2].formula, "96 MB/s × 3 brokers ÷ (2 consumer groups + 3 copies − 1) = 72 MB/s");
    }

    #[test]
    fn brokers_are_added_by_zones_until_the_rate_is_carried() {
        let three = cluster("m5.large", 250.0, 3, 2);
        for (rate, brokers) in [(1.0, 3), (57.6, 3), (57.7, 6), (115.2, 6), (116.0, 9)] {
            assert_eq!(three.brokers_for(rate), brokers, "{rate}");
            assert!(Cluster { brokers, ..three }.recommended() >= rate - 1e-9);
        }
        assert_eq!(Cluster { zones: 2, ..three }.brokers_for(1.0), 4);
    }

    #[test]
    fn volumes_hold_the_retention_and_partitions_count_their_copies() {
        let three = cluster("m5.large", 250.0, 3, 2);
        // 10 MB/s of 24 h, three copies over three brokers: 864 GB each.
        assert_eq!((three.storage_gib(10.0, 24.0)).round(), 805.0);
        assert!(has_room(16_384.0) && !has_room(16_385.0));
        assert_eq!(three.partitions_per_broker(1000), 1000);
        assert_eq!(Cluster { brokers: 6, ..three }.partitions_per_broker(1001), 501);
        assert!(three.remarks()[0].contains("334 GB"));
        assert!(Cluster { brokers: 4, ..three }.remarks()[0].contains("do not divide"));
        assert!(Cluster { brokers: 33, ..three }.remarks()[0].contains("KRaft"));
    }
}
