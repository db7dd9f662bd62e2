//! README's chart: how late sleeps end against their CPU time, and what it takes to arm and cancel a timer.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::table::load;

/// Readable on white and on black, with a contrast of 4.5 to 1 on both.
const OURS: &str = "#1777cf";
const OTHER: &str = "#bd580f";
const THIRD: &str = "#a153c6";
const TEXT: &str = "#757575";

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 330.0;
/// The edges of the first panel.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 420.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 262.0;
/// Where the bars of the second panel begin, and the longest ends.
const BARS: f64 = 590.0;
const LONGEST: f64 = 225.0;

const SLEEPING: [(&str, &str); 3] = [("hairspring", OURS), ("tokio::time", OTHER), ("async-io", THIRD)];
/// The number of tasks, and the scenario. The busiest begins the line.
const CROWDS: [(&str, &str); 3] =
    [("1", "1 task, 2 workers"), ("50", "50 tasks, 2 workers"), ("1,000", "1000 tasks, 2 workers")];
const ARMING: [&str; 7] =
    ["hairspring", "tokio-util DelayQueue", "pingora-timeout", "tokio::time", "futures-timer", "tick", "async-io"];

/// The axes, both logarithmic: CPU time relative to tokio's, and lateness in microseconds.
const CPU: (f64, f64) = (0.5, 32.0);
const LATE: (f64, f64) = (20.0, 2_000.0);

pub(crate) fn draw(root: &Path) -> Result<String, String> {
    let mut shapes = String::new();
    lateness(root, &mut shapes)?;
    arming(root, &mut shapes)?;
    let source = root.join("benches/rivals/results/late.csv");
    let results = fs::read_to_string(source).map_err(|error| error.to_string())?;
    let about = results.lines().next().and_then(|line| line.strip_prefix("# ")).ok_or("late.csv has no first line")?;
    let (machine, _) = about.split_once(';').ok_or("late.csv names no machine")?;
    let (_, date) = about.rsplit_once("; ").ok_or("late.csv has no date")?;
    text(&mut shapes, LEFT, HEIGHT - 12.0, "start", &format!("{machine}; {date}"));
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"{TEXT}\">\n{shapes}</svg>\n"
    ))
}

fn text(shapes: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let _ = writeln!(shapes, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}

fn title(shapes: &mut String, x: f64, words: &str) {
    let _ = writeln!(shapes, "<text x=\"{x:.1}\" y=\"20\" font-size=\"14\" font-weight=\"bold\">{words}</text>");
}

/// Where a value is between two edges, on a logarithmic axis.
fn along(value: f64, (least, most): (f64, f64), from: f64, to: f64) -> f64 {
    from + (value / least).ln() / (most / least).ln() * (to - from)
}

fn lateness(root: &Path, shapes: &mut String) -> Result<(), String> {
    title(shapes, LEFT, "Sleeps of 1 to 10 ms: lower left is better");
    let (x, y) = (|cpu| along(cpu, CPU, LEFT, RIGHT), |late| along(late, LATE, BOTTOM, TOP));
    for (value, label) in [(20.0, "20 µs"), (100.0, "100 µs"), (500.0, "500 µs"), (2_000.0, "2 ms")] {
        line(shapes, LEFT, y(value), RIGHT, y(value));
        text(shapes, LEFT - 6.0, y(value) + 4.0 - if value > LATE.0 { 0.0 } else { 6.0 }, "end", label);
    }
    for (value, label) in [(0.5, "0.5x"), (1.0, "1x"), (4.0, "4x"), (16.0, "16x")] {
        line(shapes, x(value), TOP, x(value), BOTTOM);
        text(shapes, x(value), BOTTOM + 16.0, "middle", label);
    }
    text(shapes, LEFT, TOP - 8.0, "start", "median lateness");
    text(shapes, RIGHT, BOTTOM + 34.0, "end", "CPU time relative to tokio's; numbers are tasks");
    let rows = load(root, "benches/rivals/results/late.csv")?;
    for (contender, colour) in SLEEPING {
        let mut points = Vec::new();
        for (tasks, scenario) in CROWDS {
            let row = rows.iter().find(|row| row["scenario"] == scenario && row["contender"] == contender);
            let row = row.ok_or_else(|| format!("late.csv: no {contender} with {scenario}"))?;
            points.push((x(number(&row["processor times tokio's"])?), y(micros(&row["p50"])?), tasks));
        }
        let path: Vec<_> = points.iter().map(|(x, y, _)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            shapes,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
            path.join(" ")
        );
        let _ = writeln!(shapes, "<g fill=\"{colour}\">");
        for &(x, y, _) in &points {
            let _ = writeln!(shapes, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>");
        }
        match contender {
            // All of its points are in one place.
            "tokio::time" => text(shapes, points[0].0 + 10.0, points[0].1 - 6.0, "start", "tokio::time 1 to 1,000"),
            "hairspring" => {
                text(shapes, points[0].0 + 9.0, points[0].1 + 4.0, "start", "hairspring 1");
                text(shapes, points[1].0 - 8.0, points[1].1 + 16.0, "end", "50");
                text(shapes, points[2].0 + 9.0, points[2].1 + 4.0, "start", "1,000");
            }
            _ => {
                text(shapes, points[0].0 + 9.0, points[0].1 - 5.0, "start", &format!("{contender} 1"));
                for (x, y, tasks) in &points[1..] {
                    text(shapes, x + 4.0, y - 8.0, "start", tasks);
                }
            }
        }
        let _ = writeln!(shapes, "</g>");
    }
    Ok(())
}

fn line(shapes: &mut String, x: f64, y: f64, to_x: f64, to_y: f64) {
    let _ = writeln!(
        shapes,
        "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{to_x:.1}\" y2=\"{to_y:.1}\" stroke=\"{TEXT}\" stroke-opacity=\"0.35\"/>"
    );
}

/// Two bars for each timer: with one task, and with two.
fn arming(root: &Path, shapes: &mut String) -> Result<(), String> {
    title(shapes, BARS - 130.0, "Arm and cancel on two workers: shorter is better");
    text(shapes, BARS, TOP - 8.0, "start", "ns a timer, with 1 task and with 2");
    let rows = load(root, "benches/rivals/results/rivals.csv")?;
    let mut nanos = Vec::new();
    for rival in ARMING {
        for tasks in ["1", "2"] {
            let conditions = [
                ("workload", "arm+cancel"),
                ("rival", rival),
                ("runtime", "2 workers"),
                ("tasks", tasks),
                ("earlier timer", "standing"),
                ("population", "0"),
            ];
            let row = rows.iter().find(|row| conditions.iter().all(|(name, value)| row[*name] == *value));
            nanos.push(number(&row.ok_or_else(|| format!("rivals.csv: no {rival} with {tasks} tasks"))?["median"])?);
        }
    }
    let most = nanos.iter().copied().fold(0.0, f64::max);
    for ((rival, pair), top) in
        ARMING.iter().zip(nanos.chunks(2)).zip((0..).map(|row| TOP + 4.0 + 31.0 * f64::from(row)))
    {
        let colour = match *rival {
            "hairspring" => OURS,
            "tokio::time" => OTHER,
            _ => TEXT,
        };
        text(shapes, BARS - 8.0, top + 16.0, "end", rival);
        for (&nanos, (down, opacity)) in pair.iter().zip([(0.0, 0.55), (12.0, 1.0)]) {
            let (width, y) = (nanos / most * LONGEST, top + down);
            let _ = writeln!(
                shapes,
                "<rect x=\"{BARS}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"10\" fill=\"{colour}\" \
                 fill-opacity=\"{opacity}\"/>"
            );
            text(shapes, BARS + width + 5.0, y + 9.5, "start", &format!("{nanos:.0}"));
        }
    }
    Ok(())
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("no number: `{text}`"))
}

/// `42 µs` and `1.1 ms`, in microseconds.
fn micros(time: &str) -> Result<f64, String> {
    let (value, unit) = time.split_once(' ').ok_or_else(|| format!("no unit: {time}"))?;
    Ok(if unit == "ms" { 1_000.0 * number(value)? } else { number(value)? })
}
