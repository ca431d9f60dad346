//! What the roles of a pipeline need on AWS: policies for the function, the fold and maintenance, each with what it does
//! and no more.

use pipeline::environment::{Catalog, Environment, Location, Registry};
use pipeline::resolved::Pipeline;
use pipeline::route::Part;
use serde::Serialize;
use serde_json::{Value, json};

/// The ports of MSK brokers that log in with IAM, within a VPC and from outside.
const IAM_PORTS: [&str; 2] = ["9098", "9198"];

/// Policies by role.
#[derive(Debug, Serialize)]
pub(crate) struct Permissions {
    pub(crate) function: Role,
    pub(crate) fold: Role,
    pub(crate) maintain: Role,
}

/// What one role needs.
#[derive(Debug, Serialize)]
pub(crate) struct Role {
    /// Policies of AWS's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) managed_policies: Vec<&'static str>,
    pub(crate) policy: Value,
}

/// The permissions of a pipeline; none where nothing of its environment is on AWS.
pub(crate) fn of(pipeline: &Pipeline, environment: &Environment) -> Option<Permissions> {
    let msk = Msk::of(environment);
    let partition = partition(environment, msk.as_ref());
    let store = bucket(&environment.store, partition);
    let warehouse = environment.warehouse.as_ref().and_then(|warehouse| bucket(warehouse, partition));
    let table_bucket = match &environment.catalog {
        Catalog::S3Tables { bucket_arn, .. } => Some(bucket_arn),
        _ => None,
    };
    let glue = match &environment.catalog {
        Catalog::Glue { region } => Some(region.as_deref().unwrap_or("*")),
        _ => None,
    };
    let registries = registries(pipeline, environment, partition);
    let is_elsewhere = store.is_none() && warehouse.is_none() && table_bucket.is_none() && glue.is_none();
    if is_elsewhere && msk.is_none() && registries.is_empty() {
        return None;
    }
    let name = &pipeline.name;
    // The pipeline's id is its name with eight hexadecimal digits behind it.
    let own = |root: &str| format!("{root}/{name}-????????/*");
    let applied = format!("pipelines/{name}/*");
    let (namespace, table_name) = match &pipeline.route {
        None => (pipeline.table.name.namespace.clone(), pipeline.table.name.name.clone()),
        Some(route) => (any_of(&route.namespace), any_of(&route.name)),
    };
    let table = format!("{namespace}/{table_name}/*");
    let (mut function, mut fold, mut maintain) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(store) = &store {
        function.push(store.allow("Stage", &["s3:PutObject"], &[own("staging"), own("dead-letters")]));
        fold.push(store.list("ListStored"));
        let read = [own("staging"), own("settled"), own("runs"), applied];
        fold.push(store.allow("ReadStaged", &["s3:GetObject"], &read));
        let mut written = vec![own("settled"), own("dead-letters"), own("runs"), format!("pipelines/{name}/id")];
        written.extend(pipeline.route.is_some().then(|| own("tables")));
        fold.push(store.allow("Settle", &["s3:PutObject"], &written));
        maintain.push(store.list("ListStored"));
        maintain.push(store.allow("ReadSettled", &["s3:GetObject"], &read));
        maintain.push(store.allow("NoteRun", &["s3:PutObject"], &[own("runs")]));
        let removed = [own("staging"), own("settled"), format!("runs/{name}-????????/begun/*")];
        maintain.push(store.allow("RemoveSettled", &["s3:DeleteObject"], &removed));
    }
    if let Some(warehouse) = &warehouse {
        fold.push(warehouse.list("ListTable"));
        // It deletes metadata files only, where the table's properties ask for it.
        let actions = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"];
        fold.push(warehouse.allow("WriteTable", &actions, std::slice::from_ref(&table)));
        maintain.push(warehouse.list("ListTable"));
        maintain.push(warehouse.allow("ReadTable", &["s3:GetObject"], &[table]));
    }
    if let Some(region) = glue {
        let [make, write, read] = entries_in(partition, region, &namespace, &table_name);
        fold.extend([make, write]);
        maintain.push(read);
    }
    if let Some(arn) = table_bucket {
        let [make, write, read] = tables_in(arn, &namespace, &table_name);
        fold.extend([make, write]);
        maintain.push(read);
    }
    let mut managed = Vec::new();
    if let Some(msk) = &msk {
        managed.push("service-role/AWSLambdaMSKExecutionRole");
        function.extend(msk.statements(&pipeline.source.topics));
    }
    function.extend(registries);
    let role = |managed_policies, statements: Vec<Value>| Role {
        managed_policies,
        policy: json!({ "Version": "2012-10-17", "Statement": statements }),
    };
    Some(Permissions {
        function: role(managed, function),
        fold: role(Vec::new(), fold),
        maintain: role(Vec::new(), maintain),
    })
}

/// What reading the pipeline's schemas in Glue takes, of each registry. The account and, where it is not said, the region are those
/// that the function runs in; a role says what its own account allows.
fn registries(pipeline: &Pipeline, environment: &Environment, partition: &str) -> Vec<Value> {
    let named = ingest::registries_of(pipeline, environment).unwrap_or_default();
    let statement = |(name, settings): (&str, &Registry)| {
        let Registry::Glue { registry_name, region, assume_role, .. } = settings else { return None };
        // A statement's name has letters and digits only.
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let (sid, action, resources) = match assume_role {
            Some(role) => (format!("AssumeRegistryRole{name}"), "sts:AssumeRole", vec![role.clone()]),
            None => {
                let region = region.as_deref().unwrap_or("*");
                let registry = registry_name.as_deref().unwrap_or("*");
                let arn = |what: &str| format!("arn:{partition}:glue:{region}:*:{what}");
                let resources = vec![arn(&format!("registry/{registry}")), arn(&format!("schema/{registry}/*"))];
                (format!("ReadSchemas{name}"), "glue:GetSchemaVersion", resources)
            }
        };
        Some(json!({ "Sid": sid, "Effect": "Allow", "Action": [action], "Resource": resources }))
    };
    named.into_iter().filter_map(statement).collect()
}

/// What making, writing and reading entries of Glue's catalog takes: of each the catalog, the database and the table are asked. The account is the
/// one that runs them.
fn entries_in(partition: &str, region: &str, namespace: &str, name: &str) -> [Value; 3] {
    let arn = |what: String| format!("arn:{partition}:glue:{region}:*:{what}");
    let resources =
        ["catalog".to_owned(), format!("database/{namespace}"), format!("table/{namespace}/{name}")].map(arn);
    let allow = |sid: &str, actions: &[&str]| json!({ "Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources });
    [
        allow("MakeTableEntry", &["glue:GetDatabase", "glue:CreateDatabase", "glue:CreateTable"]),
        allow("SwapTableEntry", &["glue:GetTable", "glue:UpdateTable"]),
        allow("ReadTableEntry", &["glue:GetTable"]),
    ]
}

/// Which of AWS's partitions everything is in: ARNs of another one would name nothing. Told from whatever names a region.
fn partition(environment: &Environment, msk: Option<&Msk>) -> &'static str {
    let catalog = match &environment.catalog {
        Catalog::Glue { region } => region.as_deref(),
        Catalog::S3Tables { region, .. } => Some(region.as_str()),
        _ => None,
    };
    let registries = environment.registries.values().filter_map(|settings| match settings {
        Registry::Glue { region, .. } => region.as_deref(),
        _ => None,
    });
    let region = catalog.or_else(|| msk.map(|msk| msk.region.as_str())).or_else(|| registries.into_iter().next());
    region.map_or("aws", partition_of)
}

fn partition_of(region: &str) -> &'static str {
    const OTHERS: [(&str, &str); 5] = [
        ("cn-", "aws-cn"),
        ("us-gov-", "aws-us-gov"),
        ("us-iso-", "aws-iso"),
        ("us-isob-", "aws-iso-b"),
        ("eusc-", "aws-eusc"),
    ];
    OTHERS.iter().find(|(begins, _)| region.starts_with(begins)).map_or("aws", |(_, partition)| partition)
}

/// What making, writing and reading tables of a table bucket takes. A table's ARN ends in an id that nobody knows before it is made: its
/// name is a condition.
fn tables_in(arn: &str, namespace: &str, name: &str) -> [Value; 3] {
    let of_table = |sid: &str, actions: &[&str]| {
        let condition = json!({ "StringLike": { "s3tables:namespace": namespace, "s3tables:tableName": name } });
        let resources = [format!("{arn}/table/*")];
        json!({ "Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources, "Condition": condition })
    };
    let make = ["s3tables:GetNamespace", "s3tables:CreateNamespace", "s3tables:CreateTable"];
    let read = ["s3tables:GetTableMetadataLocation", "s3tables:GetTableData"];
    let write = [&read[..], &["s3tables:UpdateTableMetadataLocation", "s3tables:PutTableData"]].concat();
    [
        json!({ "Sid": "MakeTable", "Effect": "Allow", "Action": make, "Resource": [arn] }),
        of_table("WriteTable", &write),
        of_table("ReadTable", &read),
    ]
}

/// The names that parts may come to, as policies write them.
fn any_of(parts: &[Part]) -> String {
    let written = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        _ => "*".to_owned(),
    };
    parts.iter().map(written).collect()
}

/// A bucket and what keys in it begin with, ending in a slash unless empty.
struct Bucket {
    partition: &'static str,
    name: String,
    prefix: String,
}

fn bucket(location: &Location, partition: &'static str) -> Option<Bucket> {
    match location {
        Location::File(_) => None,
        Location::S3 { bucket, prefix } => {
            let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
            Some(Bucket { partition, name: bucket.clone(), prefix })
        }
    }
}

impl Bucket {
    fn allow(&self, sid: &str, actions: &[&str], keys: &[String]) -> Value {
        let resources: Vec<String> =
            keys.iter().map(|key| format!("arn:{}:s3:::{}/{}{key}", self.partition, self.name, self.prefix)).collect();
        json!({ "Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources })
    }

    /// Without it a key that is not there can't be told from one that may not be read. A condition on prefixes would not do:
    /// what reads one key names none.
    fn list(&self, sid: &str) -> Value {
        let resources = [format!("arn:{}:s3:::{}", self.partition, self.name)];
        json!({ "Sid": sid, "Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": resources })
    }
}

/// An MSK cluster, as far as its brokers' names tell.
struct Msk {
    region: String,
    /// Whether clients log in with IAM.
    iam: bool,
}

impl Msk {
    fn of(environment: &Environment) -> Option<Self> {
        let servers = environment.kafka.as_ref()?.bootstrap_servers.as_ref()?;
        let (host, port) = servers.split(',').next()?.trim().rsplit_once(':')?;
        let (_, rest) = host.split_once(".kafka.").or_else(|| host.split_once(".kafka-serverless."))?;
        let (region, domain) = rest.split_once('.')?;
        if !matches!(domain, "amazonaws.com" | "amazonaws.com.cn") {
            return None;
        }
        Some(Self { region: region.to_owned(), iam: IAM_PORTS.contains(&port) })
    }

    /// The cluster's name, its UUID and the account are not in its brokers' names.
    fn statements(&self, topics: &[String]) -> Vec<Value> {
        if !self.iam {
            return Vec::new();
        }
        let arn = |what: &str| format!("arn:{}:kafka:{}:*:{what}", partition_of(&self.region), self.region);
        let allow = |sid: &str, actions: &[&str], resources: Vec<String>| json!({ "Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources });
        vec![
            allow(
                "Connect",
                &["kafka-cluster:Connect", "kafka-cluster:DescribeClusterDynamicConfiguration"],
                vec![arn("cluster/*/*")],
            ),
            allow(
                "ReadTopics",
                &["kafka-cluster:DescribeTopic", "kafka-cluster:ReadData"],
                topics.iter().map(|topic| arn(&format!("topic/*/*/{topic}"))).collect(),
            ),
            allow("UseGroup", &["kafka-cluster:DescribeGroup", "kafka-cluster:AlterGroup"], vec![arn("group/*/*/*")]),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn permissions(toml: &str) -> Option<Value> {
        framed("bare", toml)
    }

    fn framed(framing: &str, toml: &str) -> Option<Value> {
        let text = format!("[env.local]\n{toml}");
        let environment =
            pipeline::environment::parse(&text, Path::new("/project/frazil.toml")).unwrap().get(None).unwrap();
        let file = "[source]\ntopics = [\"orders\"]\n[value]\nformat = \"protobuf\"\nframing = \"bare\"\n\
                    schema = { proto = \"x.proto\", message = \"p.M\" }\n[table]\nname = \"db.t\"";
        let file = file.replace("bare", framing);
        let pipeline = pipeline::file::parse(&file, &environment, Path::new("/project/pipelines/shop.toml")).unwrap();
        of(&pipeline, &environment).map(|permissions| serde_json::to_value(permissions).unwrap())
    }

    /// Every action of a role with its resources.
    fn actions(role: &Value) -> Vec<String> {
        let mut all = Vec::new();
        for statement in role["policy"]["Statement"].as_array().unwrap() {
            for action in statement["Action"].as_array().unwrap() {
                for resource in statement["Resource"].as_array().unwrap() {
                    all.push(format!("{} {}", action.as_str().unwrap(), resource.as_str().unwrap()));
                }
            }
        }
        all
    }

    #[test]
    fn each_role_gets_what_it_does_and_no_more() {
        assert!(permissions("dir = \"x\"").is_none());
        assert!(permissions("dir = \"x\"\nkafka = { bootstrap_servers = \"localhost:9092\" }").is_none());
        let all = permissions(
            "store = \"s3://acme/frazil\"\nwarehouse = \"s3://lake\"\ncatalog = \"sqlite:c.db\"\n\
             kafka = { bootstrap_servers = \"b-1.demo.abc.c2.kafka.eu-west-1.amazonaws.com:9098\" }",
        )
        .unwrap();
        assert_eq!(
            actions(&all["function"]),
            [
                "s3:PutObject arn:aws:s3:::acme/frazil/staging/shop-????????/*",
                "s3:PutObject arn:aws:s3:::acme/frazil/dead-letters/shop-????????/*",
                "kafka-cluster:Connect arn:aws:kafka:eu-west-1:*:cluster/*/*",
                "kafka-cluster:DescribeClusterDynamicConfiguration arn:aws:kafka:eu-west-1:*:cluster/*/*",
                "kafka-cluster:DescribeTopic arn:aws:kafka:eu-west-1:*:topic/*/*/orders",
                "kafka-cluster:ReadData arn:aws:kafka:eu-west-1:*:topic/*/*/orders",
                "kafka-cluster:DescribeGroup arn:aws:kafka:eu-west-1:*:group/*/*/*",
                "kafka-cluster:AlterGroup arn:aws:kafka:eu-west-1:*:group/*/*/*",
            ]
        );
        assert_eq!(all["function"]["managed_policies"], json!(["service-role/AWSLambdaMSKExecutionRole"]));
        // A fold deletes nothing that is staged, maintenance writes no table.
        for (role, action, part) in [
            ("fold", "s3:DeleteObject", "acme"),
            ("maintain", "s3:PutObject", "lake"),
            ("maintain", "s3:DeleteObject", "lake"),
        ] {
            let wrong = |line: &String| line.starts_with(action) && line.contains(part);
            assert!(!actions(&all[role]).iter().any(wrong), "{role} {action}");
        }
        let fold = actions(&all["fold"]);
        for line in [
            "s3:GetObject arn:aws:s3:::acme/frazil/staging/shop-????????/*",
            "s3:PutObject arn:aws:s3:::acme/frazil/settled/shop-????????/*",
            "s3:PutObject arn:aws:s3:::lake/db/t/*",
            "s3:ListBucket arn:aws:s3:::acme",
        ] {
            assert!(fold.iter().any(|l| l == line), "{line}: {fold:#?}");
        }
        // Entries of Glue's catalog, in whichever partition its region is.
        for (region, partition) in [("eu-west-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")] {
            let toml = format!("store = \"s3://acme/frazil\"\nwarehouse = \"s3://lake\"\ncatalog = \"glue:{region}\"");
            let all = permissions(&toml).unwrap();
            let fold = actions(&all["fold"]);
            for line in [
                format!("glue:CreateTable arn:{partition}:glue:{region}:*:table/db/t"),
                format!("glue:UpdateTable arn:{partition}:glue:{region}:*:catalog"),
                format!("s3:PutObject arn:{partition}:s3:::lake/db/t/*"),
            ] {
                assert!(fold.contains(&line), "{line}: {fold:#?}");
            }
            let maintain = actions(&all["maintain"]);
            assert!(maintain.contains(&format!("glue:GetTable arn:{partition}:glue:{region}:*:database/db")));
            assert!(!maintain.iter().any(|line| line.starts_with("glue:Update")), "{maintain:#?}");
        }
        // Tables of S3 Tables are under nobody's prefix.
        let arn = "arn:aws:s3tables:eu-west-1:111122223333:bucket/lake";
        let tables = permissions(&format!("store = \"s3://acme/frazil\"\ncatalog = \"s3tables:{arn}\"")).unwrap();
        let of_tables = |role: &str| -> Vec<String> {
            actions(&tables[role]).into_iter().filter(|line| line.starts_with("s3tables:")).collect()
        };
        assert_eq!(of_tables("function"), Vec::<String>::new());
        assert_eq!(
            of_tables("maintain"),
            ["GetTableMetadataLocation", "GetTableData"].map(|action| format!("s3tables:{action} {arn}/table/*"))
        );
        let fold = of_tables("fold");
        for line in ["CreateTable {arn}", "UpdateTableMetadataLocation {arn}/table/*", "PutTableData {arn}/table/*"] {
            let line = format!("s3tables:{}", line.replace("{arn}", arn));
            assert!(fold.contains(&line), "{line}: {fold:#?}");
        }
        let write = tables["fold"]["policy"]["Statement"].as_array().unwrap();
        let write = write.iter().find(|statement| statement["Sid"] == "WriteTable").unwrap();
        let named = json!({ "StringLike": { "s3tables:namespace": "db", "s3tables:tableName": "t" } });
        assert_eq!(write["Condition"], named);
        assert!(!actions(&tables["fold"]).iter().any(|line| line.starts_with("s3:") && !line.contains("acme")));
        // A registry is read by whoever decodes.
        let registries = "dir = \"x\"\nregistries.eu = { kind = \"glue\", registry_name = \"r\", region = \"eu-west-1\" }\n\
            registries.other = { kind = \"glue\", assume_role = \"arn:aws:iam::1:role/r\" }\n\
            registries.files = { kind = \"files\", dir = \"s\" }";
        assert!(permissions(registries).is_none(), "bare records name no schema");
        let all = framed("glue", registries).unwrap();
        assert_eq!(
            actions(&all["function"]),
            [
                "glue:GetSchemaVersion arn:aws:glue:eu-west-1:*:registry/r",
                "glue:GetSchemaVersion arn:aws:glue:eu-west-1:*:schema/r/*",
                "sts:AssumeRole arn:aws:iam::1:role/r"
            ]
        );
        assert_eq!(actions(&all["fold"]), Vec::<String>::new());
        // Another way of logging in is Kafka's own affair.
        let scram = permissions(
            "dir = \"x\"\nkafka = { bootstrap_servers = \"b-1.demo.abc.c2.kafka.cn-north-1.amazonaws.com.cn:9096\" }",
        )
        .unwrap();
        assert_eq!(actions(&scram["function"]), Vec::<String>::new());
    }
}
