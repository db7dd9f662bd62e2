//! The chart: bars of nanoseconds for each rival, one and two tasks, in both states.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use crate::arm_cancel;
use crate::machine;
use crate::record::{Case, Record, RuntimeKind};

const WIDTH: f64 = 940.0;
const NAMES: f64 = 204.0;
const PANEL: f64 = 330.0;
const GAP: f64 = 40.0;
const TOP: f64 = 96.0;
const ROW: f64 = 38.0;
const BAR: f64 = 14.0;

// Of middle lightness, so that they stand out from white and from black paper alike.
const TEXT: &str = "#808790";
const ONE_TASK: &str = "#3f8fd2";
const TWO_TASKS: &str = "#e0872a";

/// Draws what was measured without any population.
pub fn save(record: &Record, path: &Path) -> io::Result<()> {
    fs::write(path, draw(record))
}

fn draw(record: &Record) -> String {
    let mut rivals: Vec<&str> = Vec::new();
    for row in record.rows.iter().filter(|row| row.case.workload == arm_cancel::WORKLOAD) {
        if !rivals.contains(&row.rival) {
            rivals.push(row.rival);
        }
    }
    let medians =
        |rival: &str, standing| [1, 2].map(|tasks| record.median(case(tasks, standing), rival).unwrap_or(0.0));
    let longest =
        rivals.iter().flat_map(|rival| [medians(rival, true), medians(rival, false)]).flatten().fold(1.0, f64::max);
    let height = TOP + ROW * rivals.len() as f64 + 46.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"13\" fill=\"{TEXT}\">\n"
    );
    text(&mut svg, 12.0, 24.0, "font-size=\"17\" font-weight=\"600\"", "Arming and cancelling a timer, in nanoseconds");
    let mut x = 12.0;
    for (colour, label) in [(ONE_TASK, "1 task"), (TWO_TASKS, "2 tasks at once")] {
        rect(&mut svg, x, 38.0, 12.0, 12.0, colour);
        text(&mut svg, x + 18.0, 49.0, "", label);
        x += 90.0;
    }
    for (panel, standing) in [true, false].into_iter().enumerate() {
        let left = NAMES + panel as f64 * (PANEL + GAP);
        let title = if standing { "an earlier timer stands (usual)" } else { "no earlier timer" };
        text(&mut svg, left, TOP - 14.0, "font-weight=\"600\"", title);
        for (place, rival) in rivals.iter().enumerate() {
            let y = TOP + place as f64 * ROW;
            if panel == 0 {
                let weight = if rival.starts_with("hairspring") {
                    "font-weight=\"600\" text-anchor=\"end\""
                } else {
                    "text-anchor=\"end\""
                };
                text(&mut svg, left - 10.0, y + BAR + 5.0, weight, rival);
            }
            for (bar, median) in medians(rival, standing).into_iter().enumerate() {
                let (y, length) = (y + bar as f64 * (BAR + 1.0), median / longest * (PANEL - 40.0));
                rect(&mut svg, left, y, length.max(1.0), BAR, [ONE_TASK, TWO_TASKS][bar]);
                text(&mut svg, left + length + 5.0, y + BAR - 3.0, "font-size=\"11\"", &format!("{median:.0}"));
            }
        }
    }
    let (machine, versions) = (machine::system(), machine::versions());
    text(&mut svg, 12.0, height - 24.0, "font-size=\"10\"", &machine);
    text(&mut svg, 12.0, height - 10.0, "font-size=\"10\"", &versions);
    svg.push_str("</svg>\n");
    svg
}

fn case(tasks: usize, standing: bool) -> Case {
    let workload = arm_cancel::WORKLOAD;
    Case { workload, runtime: RuntimeKind::Workers, tasks, standing: Some(standing), population: 0 }
}

fn text(svg: &mut String, x: f64, y: f64, style: &str, what: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{what}</text>");
}

fn rect(svg: &mut String, x: f64, y: f64, width: f64, height: f64, colour: &str) {
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\" fill=\"{colour}\"/>"
    );
}
