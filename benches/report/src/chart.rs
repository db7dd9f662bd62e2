//! README's chart: how late sleeps end, and what it takes to arm and cancel a timer.

use std::path::Path;

use crate::table::load;

/// A bar: its label, its length, and what stands behind it.
type Bar = (String, f64, String);

const LATENESS: [(&str, &str); 2] = [("1 task", "1 task, 2 workers"), ("50 tasks", "50 tasks, 2 workers")];
const ARMING: [&str; 6] =
    ["hairspring", "tokio::time", "tokio-util DelayQueue", "pingora-timeout", "async-io", "futures-timer"];
const SLEEPING: [&str; 3] = ["hairspring", "tokio::time", "async-io"];

pub(crate) fn draw(root: &Path) -> Result<String, String> {
    let late = load(root, "benches/rivals/results/late.csv")?;
    let rivals = load(root, "benches/rivals/results/rivals.csv")?;
    let mut lateness = Vec::new();
    for (tasks, scenario) in LATENESS {
        for contender in SLEEPING {
            let row = late.iter().find(|row| row["scenario"] == scenario && row["contender"] == contender);
            let p50 = &row.ok_or_else(|| format!("late.csv: no {contender} with {scenario}"))?["p50"];
            lateness.push((format!("{contender}, {tasks}"), micros(p50)?, p50.clone()));
        }
    }
    let mut arming = Vec::new();
    for (rival, tasks) in ["1", "2"].into_iter().flat_map(|tasks| ARMING.map(|rival| (rival, tasks))) {
        let conditions = [
            ("workload", "arm+cancel"),
            ("rival", rival),
            ("runtime", "2 workers"),
            ("tasks", tasks),
            ("earlier timer", "standing"),
            ("population", "0"),
        ];
        let row = rivals.iter().find(|row| conditions.iter().all(|(name, value)| row[*name] == *value));
        let median = &row.ok_or_else(|| format!("rivals.csv: no {rival}"))?["median"];
        let nanos: f64 = median.parse().map_err(|_| format!("rivals.csv: `{median}`"))?;
        let plural = if tasks == "1" { "" } else { "s" };
        arming.push((format!("{rival}, {tasks} task{plural}"), nanos, format!("{nanos:.0} ns")));
    }
    Ok(svg(&[
        ("How late a sleep of 1 to 10 ms ends, median (lower is better)", lateness),
        ("Arming and cancelling a timer on two workers, per timer (lower is better)", arming),
    ]))
}

/// `42 µs` and `1.1 ms`, in microseconds.
fn micros(time: &str) -> Result<f64, String> {
    let (number, unit) = time.split_once(' ').ok_or_else(|| format!("no unit: {time}"))?;
    let number: f64 = number.parse().map_err(|_| format!("no number: {time}"))?;
    Ok(if unit == "ms" { 1_000.0 * number } else { number })
}

/// Panels one below the other. The colours can be read on white and on black.
fn svg(panels: &[(&str, Vec<Bar>)]) -> String {
    const LEFT: usize = 210;
    const LONGEST: f64 = 430.0;
    let (mut shapes, mut top) = (Vec::new(), 0);
    for (title, bars) in panels {
        let most = bars.iter().map(|(_, length, _)| *length).fold(0.0, f64::max);
        top += 28;
        shapes.push(format!("<text x=\"0\" y=\"{top}\" font-weight=\"bold\">{title}</text>\n"));
        for (label, length, value) in bars {
            top += 20;
            let colour = if label.starts_with("hairspring") { "#3f8fd2" } else { "#e0872a" };
            let (width, bar, text) = ((length / most * LONGEST).max(1.0), top - 12, LEFT - 8);
            let end = LEFT as f64 + width + 6.0;
            shapes.push(format!(
                "<text x=\"{text}\" y=\"{top}\" text-anchor=\"end\">{label}</text>\
                 <rect x=\"{LEFT}\" y=\"{bar}\" width=\"{width:.1}\" height=\"14\" fill=\"{colour}\"/>\
                 <text x=\"{end:.1}\" y=\"{top}\">{value}</text>\n"
            ));
        }
        top += 12;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"{top}\" font-family=\"sans-serif\" \
         font-size=\"13\" fill=\"#808891\">\n{}</svg>\n",
        shapes.concat()
    )
}
