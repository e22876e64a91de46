//! What a command prints: data on standard output as a table, JSON, YAML or names; words on standard error.

use crate::{exit::PluginError, fields::Field};
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets::NOTHING};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, IsTerminal as _, Write as _};

/// The form of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputForm {
    /// For people.
    #[default]
    Table,
    /// The table with more columns.
    Wide,
    /// JSON: an array of rows, or an object.
    Json,
    /// The same as YAML.
    Yaml,
    /// One name a line.
    Name,
    /// Comma-separated values with all columns; of `usage` only.
    Csv,
}

/// A column of a table.
#[derive(Clone, Copy)]
pub struct Column {
    /// The heading, in capitals.
    pub title: &'static str,
    /// Whether only `-o wide` shows it.
    pub is_wide: bool,
}

/// A column of every table.
pub const fn column(title: &'static str) -> Column {
    Column {
        title,
        is_wide: false,
    }
}

/// A column of `-o wide`.
pub const fn wide(title: &'static str) -> Column {
    Column {
        title,
        is_wide: true,
    }
}

/// A row of a table. JSON and YAML have its serialization.
pub trait Row: Serialize {
    /// The columns.
    const COLUMNS: &'static [Column];

    /// One cell a column. An empty cell is shown as `-`.
    fn cells(&self) -> Vec<String>;

    /// What `-o name` prints.
    fn name(&self) -> String;
}

/// How a cell or a word stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// It needs the user.
    Bad,
    /// It changes, or waits.
    Busy,
    /// It is as it should be.
    Good,
}

impl Tone {
    /// The text in the tone's colour. Streams without colour drop it.
    pub fn paint(self, text: &str) -> String {
        let color = match self {
            Self::Bad => AnsiColor::Red,
            Self::Busy => AnsiColor::Yellow,
            Self::Good => AnsiColor::Green,
        };
        let style = Style::new().fg_color(Some(color.into()));
        format!("{style}{text}{style:#}")
    }
}

/// Prints in the form and the colours that the user asked for.
pub struct Printer {
    /// The form of the data.
    pub form: OutputForm,
    /// Whether words on standard error are left out.
    pub is_quiet: bool,
    colors: ColorChoice,
}

/// The longest line of a text.
const TEXT_WIDTH: usize = 100;
/// The longest cell that is never broken.
const SHORT: usize = 24;
/// Blanks between two columns.
const GAP: u16 = 2;

/// A text in lines of at most that width, each with an indent. A longer word has a line of its own.
pub fn wrap(text: &str, indent: &str) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let length = indent.len() + line.chars().count() + 1 + word.chars().count();
        if !line.is_empty() && length > TEXT_WIDTH {
            lines += &format!("{indent}{line}\n");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    if !line.is_empty() {
        lines += &format!("{indent}{line}\n");
    }
    lines
}

impl Printer {
    /// A printer. `NO_COLOR` and a stream that is no terminal have no colours.
    pub fn new(form: OutputForm, is_quiet: bool, no_color: bool) -> Self {
        let colors = match no_color {
            true => ColorChoice::Never,
            false => ColorChoice::Auto,
        };
        Self {
            form,
            is_quiet,
            colors,
        }
    }

    /// Whether the form is a table, so that a command may group and explain.
    pub fn is_table(&self) -> bool {
        matches!(self.form, OutputForm::Table | OutputForm::Wide)
    }

    /// Prints rows: as a table, JSON, YAML or names. A table without rows is one line on standard error.
    pub fn rows<R: Row>(&self, rows: &[R], none: &str) -> Result<(), PluginError> {
        match self.form {
            OutputForm::Json | OutputForm::Yaml => self.data(&rows),
            OutputForm::Name => {
                let names: Vec<_> = rows.iter().map(|row| row.name() + "\n").collect();
                self.text(&names.concat())
            }
            _ => self.cells(R::COLUMNS, &cells_of(rows), none),
        }
    }

    /// Prints records: the columns show their fields, the first one is the name. JSON and YAML have all fields that
    /// are known.
    pub fn records(
        &self,
        fields: &[Field],
        records: Vec<Value>,
        none: &str,
    ) -> Result<(), PluginError> {
        match self.form {
            OutputForm::Json | OutputForm::Yaml => {
                let records = records.into_iter().map(without_nulls);
                self.data(&records.collect::<Vec<_>>())
            }
            OutputForm::Name => {
                let names = records.iter().map(|record| fields[0].cell(record) + "\n");
                self.text(&names.collect::<String>())
            }
            _ => {
                let columns: Vec<Column> = fields.iter().map(|field| field.column).collect();
                let cells = records.iter().map(|record| {
                    let cells = fields.iter().map(|field| field.cell(record));
                    cells.collect()
                });
                self.cells(&columns, &cells.collect::<Vec<_>>(), none)
            }
        }
    }

    fn cells(
        &self,
        columns: &[Column],
        rows: &[Vec<String>],
        none: &str,
    ) -> Result<(), PluginError> {
        match self.form {
            OutputForm::Csv => self.text(&csv(columns, rows)),
            _ if rows.is_empty() => {
                if !none.is_empty() {
                    self.inform(none);
                }
                Ok(())
            }
            _ => self.text(&self.render(columns, rows)),
        }
    }

    /// A table that breaks lines only at a terminal, and between words.
    pub fn render(&self, columns: &[Column], rows: &[Vec<String>]) -> String {
        let is_wide = self.form == OutputForm::Wide;
        let is_shown = |column: &Column| is_wide || !column.is_wide;
        let mut table = Table::new();
        table.load_preset(NOTHING);
        table.set_content_arrangement(match is_wide {
            true => ContentArrangement::Disabled,
            false => ContentArrangement::Dynamic,
        });
        let shown = columns.iter().filter(|column| is_shown(column));
        table.set_header(shown.map(|column| column.title));
        for row in rows {
            let shown = row.iter().zip(columns).filter(|(_, it)| is_shown(it));
            table.add_row(shown.map(|(cell, _)| match cell.is_empty() {
                true => "-",
                false => cell,
            }));
        }
        let shown = columns.iter().enumerate().filter(|(_, it)| is_shown(it));
        for (column, (at, of)) in table.column_iter_mut().zip(shown) {
            let cells = rows.iter().filter_map(|row| row.get(at));
            let cells = cells.map(String::as_str).chain([of.title]);
            let unbroken = cells.flat_map(|cell| match cell.len() > SHORT {
                true => cell.split_whitespace().collect(),
                false => vec![cell],
            });
            let longest = unbroken.map(|it| it.chars().count()).max();
            let least = u16::try_from(longest.unwrap_or_default()).unwrap_or(u16::MAX);
            column.set_padding((0, GAP));
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(
                least.saturating_add(GAP),
            )));
        }
        table.trim_fmt() + "\n"
    }

    /// Prints a value as JSON or YAML; JSON if the form is for people.
    pub fn data<T: Serialize>(&self, value: &T) -> Result<(), PluginError> {
        let text = match self.form {
            OutputForm::Yaml => serde_saphyr::to_string(value)
                .map_err(|error| PluginError::Other(format!("no YAML: {error}")))?,
            _ => serde_json::to_string_pretty(value)
                .map_err(|error| PluginError::Other(format!("no JSON: {error}")))?,
        };
        self.text(&(text.trim_end().to_owned() + "\n"))
    }

    /// Prints data as it is.
    pub fn text(&self, text: &str) -> Result<(), PluginError> {
        let mut out = AutoStream::new(io::stdout(), self.choice(io::stdout().is_terminal()));
        out.write_all(without_controls(text).as_bytes())?;
        Ok(out.flush()?)
    }

    /// Clears the terminal, for an output that is drawn again.
    pub fn clear_screen(&self) -> Result<(), PluginError> {
        let mut out = io::stdout();
        out.write_all(b"\x1b[H\x1b[2J")?;
        Ok(out.flush()?)
    }

    /// Says something on standard error, unless the user wants quiet.
    pub fn inform(&self, text: &str) {
        if !self.is_quiet {
            self.warn(text);
        }
    }

    /// Says something on standard error that nobody may miss.
    pub fn warn(&self, text: &str) {
        let mut out = AutoStream::new(io::stderr(), self.choice(io::stderr().is_terminal()));
        // Nobody reads it then.
        let _ = writeln!(out, "{}", without_controls(text));
    }

    fn choice(&self, is_terminal: bool) -> ColorChoice {
        match (self.colors, is_terminal) {
            (ColorChoice::Auto, false) => ColorChoice::Never,
            (choice, _) => choice,
        }
    }
}

/// Removes what a text from a cluster could do to a terminal: all control characters but line ends, tabs and the start
/// of a colour.
pub fn without_controls(text: &str) -> String {
    let is_color = |rest: &str| {
        let codes = rest.strip_prefix('[');
        let end = codes.and_then(|codes| codes.find(|it: char| !it.is_ascii_digit() && it != ';'));
        codes
            .zip(end)
            .is_some_and(|(codes, end)| codes[end..].starts_with('m'))
    };
    let is_safe = |(at, letter): &(usize, char)| match letter {
        '\n' | '\t' => true,
        '\u{1b}' => is_color(&text[at + 1..]),
        letter => !letter.is_control(),
    };
    let safe = text.char_indices().filter(is_safe);
    safe.map(|(_, letter)| letter).collect()
}

/// The record without the fields that have no value.
pub fn without_nulls(mut record: Value) -> Value {
    if let Some(fields) = record.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    record
}

fn cells_of<R: Row>(rows: &[R]) -> Vec<Vec<String>> {
    rows.iter().map(Row::cells).collect()
}

/// The rows with all columns, as RFC 4180 has it, with a newline after each.
fn csv(columns: &[Column], rows: &[Vec<String>]) -> String {
    let titles: Vec<_> = columns.iter().map(|it| it.title.to_owned()).collect();
    let rows = rows.iter().map(|row| csv_line(row));
    rows.fold(csv_line(&titles), |text, row| text + &row)
}

fn csv_line(cells: &[String]) -> String {
    let quoted = |cell: &String| match cell.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.clone(),
    };
    let cells: Vec<_> = cells.iter().map(quoted).collect();
    cells.join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_drive_the_terminal() {
        let forged = "a\u{1b}]52;c;ZXZpbA==\u{7}b\u{1b}[2Jc\rd\u{9b}1Ae";
        assert_eq!(without_controls(forged), "a]52;c;ZXZpbA==b[2Jcd1Ae");
        let painted = Tone::Bad.paint("bad") + "\n\tend";
        assert_eq!(without_controls(&painted), painted);
    }

    #[test]
    fn csv_quotes_what_would_split_a_cell() {
        let cells = ["a", "b,c", "d \"e\"", "f\ng", ""].map(str::to_owned);
        assert_eq!(csv_line(&cells), "a,\"b,c\",\"d \"\"e\"\"\",\"f\ng\",\n");
    }
}
