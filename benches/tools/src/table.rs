//! Tables for the terminal.

use comfy_table::{CellAlignment, Table, presets};

/// A table with a header. The first column is aligned left, all others right.
pub fn table<H: ToString, C: ToString>(names: &[H], rows: &[Vec<C>]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(names.iter().map(ToString::to_string));
    for row in rows {
        table.add_row(row.iter().map(ToString::to_string));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}
