//! A table of stored results, as the file `tables` describes it:
//!
//! ```text
//! benches/rivals/results/late.csv
//! where workers = 2                       rows of the file to use; may be left out
//! columns tasks: 1 | 50                   a column of the table for each of these values
//! heads: one task | fifty                 their heads, if not the values; may be left out
//! late: contender = tokio::time => {p50}  a row: its label, more conditions, what its cells say
//! ```
//!
//! In a cell, `{p50}` is a value of the file, `{p50:0}` is a number without decimals, `{p50:2}` one with two,
//! `{p50:~}` has two digits and then zeros, and `{p50:%}` is a ratio with its quartiles, or "no difference".

use std::collections::HashMap;
use std::path::Path;

type Row = HashMap<String, String>;

/// The table as Markdown.
pub(crate) fn draw(root: &Path, described: &str) -> Result<String, String> {
    let mut lines = described.trim().lines();
    let file = lines.next().unwrap_or_default().trim();
    let rows = load(root, file)?;
    let (mut common, mut column, mut values, mut heads, mut table) = (vec![], "", vec![], vec![], vec![]);
    for line in lines {
        if let Some(conditions) = line.strip_prefix("where ") {
            common = parse_conditions(conditions)?;
        } else if let Some(columns) = line.strip_prefix("columns ") {
            let (name, listed) = columns.split_once(": ").ok_or_else(|| format!("no values: {line}"))?;
            (column, values) = (name, listed.split(" | ").collect());
        } else if let Some(listed) = line.strip_prefix("heads: ") {
            heads = listed.split(" | ").collect();
        } else {
            let (label, rest) = line.split_once(": ").ok_or_else(|| format!("no label: {line}"))?;
            let (conditions, template) = rest.split_once("=> ").ok_or_else(|| format!("no cell: {line}"))?;
            let conditions = [common.clone(), parse_conditions(conditions)?].concat();
            let cell = |value: &&str| {
                let conditions = [conditions.clone(), vec![(column, *value)]].concat();
                let fits =
                    |row: &&Row| conditions.iter().all(|(name, value)| row.get(*name).is_some_and(|is| is == value));
                // A contender may not have run everywhere.
                rows.iter().find(fits).map_or_else(|| Ok("–".to_owned()), |row| fill(template, row))
            };
            let cells = values.iter().map(cell).collect::<Result<Vec<_>, _>>()?;
            table.push(format!("| {label} | {} |", cells.join(" | ")));
        }
    }
    let heads = if heads.is_empty() { values } else { heads };
    let head = format!("| | {} |\n|---|{}", heads.join(" | "), "---|".repeat(heads.len()));
    Ok(format!("{head}\n{}", table.join("\n")))
}

/// The rows of a file of results, whose first line is a comment on the machine.
pub(crate) fn load(root: &Path, file: &str) -> Result<Vec<Row>, String> {
    let text = crate::read(&root.join(file))?;
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    reader.deserialize().collect::<Result<_, _>>().map_err(|error| format!("{file}: {error}"))
}

/// `workers = 2; tasks = 1`
fn parse_conditions(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let conditions = text.split("; ").map(str::trim).filter(|condition| !condition.is_empty());
    conditions.map(|condition| condition.split_once(" = ").ok_or_else(|| format!("no `=`: {condition}"))).collect()
}

fn fill(template: &str, row: &Row) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or_else(|| format!("no `}}`: {template}"))?;
        text += before;
        text += &match name.rsplit_once(':') {
            Some((name, format)) => format_number(name, format, row)?,
            None => cell(name, row)?.replace('µ', "u").replace("..", " to "),
        };
        rest = after;
    }
    Ok(text + rest)
}

fn cell<'a>(name: &str, row: &'a Row) -> Result<&'a str, String> {
    row.get(name).map(String::as_str).ok_or_else(|| format!("no column `{name}`"))
}

fn format_number(name: &str, format: &str, row: &Row) -> Result<String, String> {
    let number = |name: &str| cell(name, row)?.parse::<f64>().map_err(|_| format!("`{name}` is no number"));
    let value = number(name)?;
    Ok(match format {
        "~" => {
            let unit = 10_f64.powf((value.log10().floor() - 1.0).max(0.0));
            tools::thousands(((value / unit).round() * unit) as u64)
        }
        "%" => {
            let quartile = |which: &str| number(&format!("{name} {which}")).or_else(|_| number(which));
            let (p25, p75) = (quartile("p25")?, quartile("p75")?);
            let ratio = if p25 <= 1.0 && 1.0 <= p75 { "no difference".to_owned() } else { format!("{value:.2}") };
            format!("{ratio} ({p25:.2} to {p75:.2})")
        }
        decimals => format!("{value:.*}", decimals.parse().map_err(|_| format!("no format `{decimals}`"))?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        [("late", "1.5 µs"), ("each", "8951.4"), ("times", "0.9"), ("times p25", "0.8"), ("times p75", "0.95")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    #[test]
    fn a_cell_is_a_value_a_rounded_number_or_a_ratio() {
        let filled = fill("{late}, {each:0}, {each:~}, {times:2}x, {times:%}", &row());
        assert_eq!(filled.unwrap(), "1.5 us, 8951, 9,000, 0.90x, 0.90 (0.80 to 0.95)");
        let mut row = row();
        row.insert("times p75".to_owned(), "1.1".to_owned());
        assert_eq!(fill("{times:%}", &row).unwrap(), "no difference (0.80 to 1.10)");
    }

    #[test]
    fn a_fault_is_named() {
        for (template, named) in
            [("{none}", "no column `none`"), ("{late:0}", "`late` is no number"), ("{late", "no `}`")]
        {
            assert!(fill(template, &row()).unwrap_err().contains(named));
        }
    }
}
