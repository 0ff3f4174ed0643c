//! Tables sized to the terminal; one line per row when nobody looks.

use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Row, Table, presets,
};

use super::CliOutput;
use super::paint::Colour;
use super::wrap::wrapped;

/// Characters that a flexible column gets at least.
const FLEXIBLE_MIN: u16 = 18;

/// A table under construction.
///
/// On a terminal only flexible columns are broken over lines, and columns are left out, in a given order, when they
/// do not fit: an id that is broken cannot be copied, and a word that is broken cannot be read.
#[derive(Debug)]
pub(crate) struct TextTable {
    table: Table,
    flexible: Vec<usize>,
    droppable: Vec<usize>,
    /// Rows grow no higher than this on a terminal, so that one long error does not push the rest away.
    row_lines: usize,
}

impl TextTable {
    /// A table with these column heads.
    pub(crate) fn new(output: &CliOutput, heads: &[&str]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        if !output.colour {
            table.force_no_tty();
        }
        if let Some(width) = output.width {
            table.set_width(width);
        }
        table.set_header(
            heads.iter().map(|head| Cell::new(head.to_uppercase()).add_attribute(Attribute::Bold)),
        );
        table.set_truncation_indicator("…");
        Self { table, flexible: Vec::new(), droppable: Vec::new(), row_lines: 2 }
    }

    /// These columns may be broken over lines.
    pub(crate) fn flexible(mut self, columns: &[usize]) -> Self {
        self.flexible = columns.to_vec();
        self
    }

    /// These columns are left out on a narrow terminal, the first of them first.
    pub(crate) fn drop_first(mut self, columns: &[usize]) -> Self {
        self.droppable = columns.to_vec();
        self
    }

    /// These columns hold figures: heads and cells stand on the right.
    pub(crate) fn figures(mut self, columns: &[usize]) -> Self {
        for column in columns {
            if let Some(column) = self.table.column_mut(*column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self
    }

    /// Lets rows grow to this many lines.
    pub(crate) const fn row_lines(mut self, lines: usize) -> Self {
        self.row_lines = lines;
        self
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        let mut row = Row::from(cells);
        if self.table.width().is_some() {
            row.max_height(self.row_lines);
        }
        self.table.add_row(row);
    }

    /// The finished text.
    pub(crate) fn text(mut self) -> String {
        if let Some(width) = self.table.width() {
            self.fit(width);
        }
        self.table.trim_fmt()
    }

    fn fit(&mut self, width: u16) {
        let mut needs: Vec<u16> = self.table.column_max_content_widths();
        for column in &self.flexible {
            if let Some(need) = needs.get_mut(*column) {
                *need = (*need).min(FLEXIBLE_MIN);
            }
        }
        // One space on either side of every column.
        let mut total: u16 = needs.iter().fold(0, |sum, need| sum.saturating_add(need.saturating_add(2)));
        for column in self.droppable.clone() {
            if total <= width {
                break;
            }
            total = total.saturating_sub(needs.get(column).map_or(0, |need| need.saturating_add(2)));
            self.constrain(column, ColumnConstraint::Hidden);
        }
        let whole = total <= width;
        for column in 0..needs.len() {
            let hidden = self.table.column(column).is_some_and(comfy_table::Column::is_hidden);
            if whole && !hidden && !self.flexible.contains(&column) {
                self.constrain(column, ColumnConstraint::ContentWidth);
            }
        }
    }

    fn constrain(&mut self, column: usize, constraint: ColumnConstraint) {
        if let Some(column) = self.table.column_mut(column) {
            column.set_constraint(constraint);
        }
    }
}

/// A cell with a stored string in it.
pub(crate) fn text(content: &str) -> Cell {
    Cell::new(super::clean(content))
}

/// A cell with a stored string cut to a length.
pub(crate) fn short(content: &str, chars: usize) -> Cell {
    Cell::new(super::brief(content, chars))
}

/// A cell in a colour.
pub(crate) fn inked(ink: Colour, content: &str) -> Cell {
    Cell::new(super::clean(content)).fg(ink.cell())
}

/// A cell with a number.
pub(crate) fn number(count: u64) -> Cell {
    Cell::new(super::figures::grouped(count)).set_alignment(CellAlignment::Right)
}

/// A number that stands out when it is not zero.
pub(crate) fn number_inked(ink: Colour, count: u64) -> Cell {
    if count == 0 { number(count) } else { number(count).fg(ink.cell()) }
}

/// Names with their values in two columns, as `show` pages have them.
#[derive(Debug, Default)]
pub(crate) struct Properties {
    lines: Vec<(String, String)>,
}

impl Properties {
    /// Adds a fact; the value must be clean already.
    pub(crate) fn add(&mut self, name: &str, value: impl Into<String>) {
        self.lines.push((name.to_owned(), value.into()));
    }

    /// Adds a stored string if there is one.
    pub(crate) fn text(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.add(name, super::clean(value));
        }
    }

    /// The finished text, each name in grey.
    pub(crate) fn page(&self, output: &CliOutput) -> String {
        let width = self.lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let line = |(name, value): &(String, String)| {
            let value = wrapped(value, output.width, width + 4);
            format!("  {}  {value}\n", output.ink(Colour::Grey, &format!("{name:<width$}")))
        };
        self.lines.iter().map(line).collect()
    }
}
