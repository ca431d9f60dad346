//! `frazil cost`: what a pipeline costs on AWS, line by line.

use crate::Session;
use crate::arguments;
use crate::cost::figures::{dollars, figure};
use crate::cost::inputs::{Architecture, Inputs, Polling};
use crate::cost::prices::{Price, Prices};
use crate::cost::{Estimate, Line, estimate};
use crate::manners::exit::Exit;
use crate::manners::failure::Failure;

pub(crate) fn run(arguments: &arguments::Cost, session: &mut Session<'_>) -> Result<Exit, Failure> {
    let prices = Prices::with(&arguments.region, &arguments.price)
        .map_err(|fault| Failure::usage("cost.price", fault.to_string()).at("--price").remedy(fault.remedy()))?;
    let body = estimate(&inputs(arguments), &prices)
        .map_err(|fault| Failure::usage(fault.code(), fault.to_string()).remedy(fault.remedy()))?;
    session.output.reply("cost", &body, human)?;
    Ok(Exit::Done)
}

/// The defaults, with what is given in their place.
fn inputs(arguments: &arguments::Cost) -> Inputs {
    let mut inputs = Inputs::of(arguments.records_per_second, arguments.record_bytes as f64);
    let mut given = Vec::new();
    take(&mut inputs.batch, arguments.batch, "batch", &mut given);
    take(&mut inputs.window_seconds, arguments.window, "window", &mut given);
    take(&mut inputs.memory_mb, arguments.memory, "memory", &mut given);
    take(&mut inputs.fold_memory_mb, arguments.fold_memory, "fold-memory", &mut given);
    take(&mut inputs.put_ms, arguments.put_ms, "put-ms", &mut given);
    take(&mut inputs.ingest_ms, arguments.ingest_ms, "ingest-ms", &mut given);
    take(&mut inputs.fold_ms, arguments.fold_ms, "fold-ms", &mut given);
    take(&mut inputs.folds_per_hour, arguments.folds_per_hour, "folds-per-hour", &mut given);
    take(&mut inputs.tables, arguments.tables, "tables", &mut given);
    take(&mut inputs.files_per_fold, arguments.files_per_fold, "files-per-fold", &mut given);
    take(&mut inputs.retention_hours, arguments.retention_hours, "retention-hours", &mut given);
    take(&mut inputs.maintain_per_day, arguments.maintain_per_day, "maintain-per-day", &mut given);
    take(&mut inputs.pollers, arguments.pollers, "pollers", &mut given);
    take(&mut inputs.log_bytes, arguments.log_bytes, "log-bytes", &mut given);
    take(&mut inputs.metrics, arguments.metrics, "metrics", &mut given);
    take(&mut inputs.partitions, arguments.partitions.map(Some), "partitions", &mut given);
    take(
        &mut inputs.records_per_invocation,
        arguments.records_per_invocation.map(Some),
        "records-per-invocation",
        &mut given,
    );
    take(&mut inputs.staged_bytes, arguments.staged_bytes.map(Some), "staged-bytes", &mut given);
    take(&mut inputs.endpoints, arguments.endpoints.map(Some), "endpoints", &mut given);
    let architecture = arguments.architecture.map(|architecture| match architecture {
        arguments::Architecture::Arm64 => Architecture::Arm64,
        arguments::Architecture::X86 => Architecture::X86,
    });
    take(&mut inputs.architecture, architecture, "architecture", &mut given);
    let polling = arguments.polling.map(|polling| match polling {
        arguments::Polling::Provisioned => Polling::Provisioned,
        arguments::Polling::OnDemand => Polling::OnDemand,
    });
    take(&mut inputs.polling, polling, "polling", &mut given);
    Inputs { given, ..inputs }
}

fn take<T>(slot: &mut T, value: Option<T>, name: &'static str, given: &mut Vec<&'static str>) {
    if let Some(value) = value {
        *slot = value;
        given.push(name);
    }
}

fn human(body: &Estimate) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_BORDERS_ONLY);
    table.set_header(["", "", "a month", "a billion records"]);
    let mut part = None;
    for line in &body.lines {
        let first = part.replace(line.part) != Some(line.part);
        let of = if first { format!("{:?}", line.part).to_lowercase() } else { String::new() };
        let name = if line.confirmed { line.name.to_owned() } else { format!("{} *", line.name) };
        table.add_row([of, name, dollars(line.dollars_per_month), dollars(line.dollars_per_billion_records)]);
    }
    let total = [dollars(body.dollars_per_month), dollars(body.dollars_per_billion_records)];
    let [month, billion] = total;
    table.add_row(["total".to_owned(), String::new(), month, billion]);
    table.add_row([
        "without pollers".to_owned(),
        String::new(),
        String::new(),
        dollars(body.dollars_per_billion_records_without_pollers),
    ]);
    for column in [2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(comfy_table::CellAlignment::Right);
        }
    }
    let mut text = vec![
        format!(
            "{} records/s, {} a month of {} h, {} an invocation; {}",
            figure(body.records_per_month / body.month_hours / 3600.0),
            figure(body.records_per_month),
            figure(body.month_hours),
            figure(body.records_per_invocation),
            body.region
        ),
        table.to_string(),
        String::new(),
        "How each line comes about:".to_owned(),
    ];
    text.extend(body.lines.iter().map(explained));
    text.push("\nWhat was taken for what:".to_owned());
    text.extend(body.inputs.iter().map(|input| {
        let value = match (&input.value, input.value.as_f64()) {
            (_, Some(number)) => figure(number),
            (value, None) => value.as_str().unwrap_or_default().to_owned(),
        };
        let unit = if input.unit.is_empty() { String::new() } else { format!(" {}", input.unit) };
        format!("  --{} {value}{unit}: {}", input.name, input.from)
    }));
    text.push(format!("\nPrices in dollars, {}:", body.region));
    text.extend(body.prices.iter().map(priced));
    text.push("\nIn no line:".to_owned());
    text.extend(body.not_counted.iter().map(|what| format!("  {what}")));
    text.extend(body.warnings.iter().map(|warning| format!("\nwarning: {warning}")));
    text.join("\n")
}

fn explained(line: &Line) -> String {
    format!("  {}, {}: {}\n    ({})", format!("{:?}", line.part).to_lowercase(), line.name, line.formula, line.from)
}

fn priced(price: &Price) -> String {
    let per = if price.per == 1.0 { String::new() } else { format!("{} ", figure(price.per)) };
    let dated = if price.dated.is_empty() { String::new() } else { format!(", {}", price.dated) };
    let unconfirmed = if price.confirmed { "" } else { ", * not confirmed by AWS" };
    format!("  {} {} for {per}{}: {}{dated}{unconfirmed}", price.name, figure(price.dollars), price.unit, price.source)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::arguments::Arguments;

    /// Every input that is shown may be given, and help says what is taken where it is not.
    #[test]
    fn help_says_the_defaults_that_are_taken() {
        let command = Arguments::command();
        let cost = command.find_subcommand("cost").unwrap();
        let inputs = Inputs::of(1000.0, 86.0).shown();
        for input in &inputs {
            let argument = cost.get_arguments().find(|argument| argument.get_long() == Some(input.name)).unwrap();
            let help = argument.get_help().unwrap().to_string();
            let value = input.value.as_str().map_or_else(|| input.value.to_string(), ToOwned::to_owned);
            let said = match input.name {
                "records-per-second" | "record-bytes" => continue,
                "staged-bytes" => "(14 of 86 bytes unless given)".to_owned(),
                "endpoints" => "(on demand 6, provisioned none, unless given)".to_owned(),
                _ => format!("({value} unless given)"),
            };
            assert!(help.ends_with(&said), "{}: {help} does not say {said}", input.name);
        }
        let shown = |name: &str| inputs.iter().any(|input| input.name == name);
        let optional = ["partitions", "records-per-invocation", "region", "price"];
        for argument in cost.get_arguments().filter(|argument| !argument.is_global_set()) {
            let name = argument.get_long().unwrap();
            assert!(
                shown(name) || optional.contains(&name) || ["help", "version"].contains(&name),
                "{name} is not shown"
            );
        }
    }
}
