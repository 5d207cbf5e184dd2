//! The matrix as text to take along: as CSV, as JSON, or as a Markdown table. What each is made of is the same.

use kv_resolver::CacheDtype;
use kv_resolver::catalog::CatalogGpu;

use crate::answers::Cell;
use crate::asked::Asked;
use crate::grid::{Grid, GridRow};
use crate::input::short_model_name;
use crate::page::Answers;
use crate::pool::AskedPool;
use crate::text;
use crate::view::View;

/// The cache dtype in the command: a matrix is about many, and a shell asks for this one's value.
const ANY_DTYPE: &str = "$DTYPE";

/// What to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// RFC 4180: a record about the question, one of names, and one for each cell.
    Csv,
    /// One object, its cells in an array.
    Json,
    /// The question, and a table with a row for each GPU.
    Markdown,
}

impl Format {
    /// All, in the order in which they are offered.
    pub const ALL: [Self; 3] = [Self::Csv, Self::Json, Self::Markdown];

    /// For people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Csv => "CSV",
            Self::Json => "JSON",
            Self::Markdown => "Markdown",
        }
    }

    /// How such a file's name ends.
    const fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Markdown => "md",
        }
    }

    /// What to call the file: the model's name without what a file system might mind.
    pub fn file_name(self, asked: &Asked) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
        let name = short_model_name(&asked.config.name).chars();
        let name: String = name.map(|c| if plain(c) { c } else { '-' }).collect();
        let release = asked.release.version();
        format!("kv-cache-{name}-{release}.{}", self.extension())
    }

    /// The matrix as it is looked at, with every GPU that passes the filters, folded away or not.
    pub fn write(self, answers: &Answers, view: &View) -> String {
        let Answers { asked, answer, .. } = answers;
        let mut grid = Grid::new(&answers.matrix, &view.unfolded(), answer.gpu, answer.dtype);
        grid.rows.retain(|row| !row.is_outside);
        match self {
            Self::Csv => csv(asked, &grid),
            Self::Json => json(asked, &grid),
            Self::Markdown => markdown(asked, &grid),
        }
    }
}

/// A value with its name.
type Named = (&'static str, Value);

/// A value, as every format takes it.
enum Value {
    /// Text, which each format quotes in its own way.
    Text(String),
    /// A number, `true` or `false`: the same in all of them.
    Bare(String),
    /// Nothing.
    None,
}

impl Value {
    fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// What was asked.
fn question(asked: &Asked) -> [Named; 5] {
    let pool = match asked.pool {
        // then each cell says whether it is by an estimate
        AskedPool::Estimated => match asked.free_bytes {
            Some(free) => ["estimated, with ", &text::gib(free), " free"].concat(),
            None => "estimated".to_owned(),
        },
        AskedPool::Given(bytes) => text::gib(bytes),
        AskedPool::Printed(_) => "of vLLM's log".to_owned(),
    };
    [
        ("model", Value::text(&asked.config.serve_as)),
        ("release", Value::text(asked.release.version())),
        (
            "context_length",
            match asked.context_length() {
                Some(tokens) => Value::Bare(tokens.to_string()),
                None => Value::None,
            },
        ),
        ("pool", Value::Text(pool)),
        ("command", Value::Text(asked.command(ANY_DTYPE))),
    ]
}

/// What is said of one cell; of what stops, the stage, and of what starts, the figures.
fn record(gpu: &CatalogGpu, row: &GridRow, dtype: CacheDtype, cell: &Cell) -> [Named; 11] {
    let (mut resolved, mut marginal) = (Value::None, Value::None);
    let (mut requests, mut is_estimate) = (Value::None, Value::None);
    let mut stops_at = Value::None;
    match cell {
        Cell::Starts {
            dtype,
            marginal: bytes,
            fits,
            ..
        } => {
            resolved = Value::text(dtype.as_str());
            marginal = Value::Bare(bytes.to_string().replace(',', ""));
            if let Some(fits) = fits.as_ref().filter(|_| !row.pool_exceeds) {
                requests = Value::Bare(fits.requests.clone());
                is_estimate = Value::Bare(fits.is_estimate.to_string());
            }
        }
        Cell::Stops { stage, .. } => stops_at = Value::text(stage.as_str()),
    }
    [
        ("gpu", Value::text(gpu.key)),
        ("label", Value::text(gpu.label)),
        ("arch", Value::Text(row.arch.to_string())),
        ("memory_mib", Value::Bare(gpu.nvml_total_mib.to_string())),
        ("kv_cache_dtype", Value::text(dtype.as_str())),
        ("outcome", Value::text(cell.outcome().as_str())),
        ("resolved_dtype", resolved),
        ("marginal_bytes_per_token", marginal),
        ("requests_that_fit", requests),
        ("is_estimate", is_estimate),
        ("stage", stops_at),
    ]
}

/// Every cell's record, row by row.
fn records(grid: &Grid) -> Vec<[Named; 11]> {
    let mut records = Vec::new();
    for row in &grid.rows {
        for gpu in &row.gpus {
            let cells = grid.columns.iter().zip(&row.cells);
            records.extend(cells.map(|(dtype, cell)| record(gpu, row, *dtype, cell)));
        }
    }
    records
}

/// The question in the first record, name and value by turns; all records have as many fields as the widest.
fn csv(asked: &Asked, grid: &Grid) -> String {
    let records = records(grid);
    let mut out = String::new();
    for (name, value) in &question(asked) {
        out.push_str(name);
        out.push(',');
        field(&mut out, value);
        out.push(',');
    }
    out.push_str("\r\n");
    if let Some(first) = records.first() {
        line(&mut out, first, |out, (name, _)| out.push_str(name));
    }
    for record in &records {
        line(&mut out, record, |out, (_, value)| field(out, value));
    }
    out
}

fn line(out: &mut String, record: &[Named], write: fn(&mut String, &Named)) {
    for (index, named) in record.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write(out, named);
    }
    out.push_str("\r\n");
}

/// A field of RFC 4180. Text that a spreadsheet would take for a formula gets an apostrophe before it.
fn field(out: &mut String, value: &Value) {
    let text = match value {
        Value::None => return,
        Value::Bare(text) => return out.push_str(text),
        Value::Text(text) => text,
    };
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) {
        "'"
    } else {
        ""
    };
    if text.contains(['"', ',', '\r', '\n']) {
        out.push('"');
        out.push_str(guard);
        out.push_str(&text.replace('"', "\"\""));
        out.push('"');
    } else {
        out.push_str(guard);
        out.push_str(text);
    }
}

/// By hand, for serde's writer would bring the printing of floats, whose tables are larger than all of this.
fn json(asked: &Asked, grid: &Grid) -> String {
    let mut out = String::from("{\n  ");
    members(&mut out, &question(asked), ",\n  ");
    out.push_str(",\n  \"cells\": [");
    for (index, record) in records(grid).iter().enumerate() {
        out.push_str(if index > 0 { ",\n    {" } else { "\n    {" });
        members(&mut out, record, ", ");
        out.push('}');
    }
    out.push_str("\n  ]\n}\n");
    out
}

fn members(out: &mut String, members: &[Named], comma: &str) {
    for (index, (name, value)) in members.iter().enumerate() {
        if index > 0 {
            out.push_str(comma);
        }
        out.push('"');
        out.push_str(name);
        out.push_str("\": ");
        match value {
            Value::None => out.push_str("null"),
            Value::Bare(text) => out.push_str(text),
            Value::Text(text) => string(out, text),
        }
    }
}

fn string(out: &mut String, text: &str) {
    const HEX: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\0'..'\u{20}' => {
                let code = character as usize;
                out.push_str("\\u00");
                out.extend([HEX[code >> 4], HEX[code & 15]]);
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// A row for each GPU, a column for each dtype; the command is code, which holds no markup.
fn markdown(asked: &Asked, grid: &Grid) -> String {
    let mut out = String::from("**");
    escaped(&mut out, &asked.config.serve_as);
    out.push_str("** on vLLM ");
    out.push_str(asked.release.version());
    for (name, value) in &question(asked)[2..4] {
        out.push_str(", ");
        out.push_str(&name.replace('_', " "));
        out.push(' ');
        match value {
            Value::None => out.push_str("of the model"),
            Value::Bare(text) | Value::Text(text) => out.push_str(text),
        }
    }
    out.push_str(":\n\n    ");
    let command = asked.command(ANY_DTYPE);
    out.push_str(&command.replace(char::is_control, " "));
    out.push_str("\n\n| GPU | key | arch | MiB |");
    for dtype in &grid.columns {
        out.push_str(" `");
        out.push_str(dtype.as_str());
        out.push_str("` |");
    }
    out.push_str("\n| --- | --- | --- | ---: |");
    out.push_str(&" --- |".repeat(grid.columns.len()));
    for row in &grid.rows {
        for gpu in &row.gpus {
            out.push_str("\n|");
            let (arch, mib) = (row.arch.to_string(), text::number(gpu.nvml_total_mib));
            for text in [gpu.label, gpu.key, &arch, &mib] {
                out.push(' ');
                escaped(&mut out, text);
                out.push_str(" |");
            }
            for cell in &row.cells {
                out.push(' ');
                escaped(&mut out, &in_words(row, cell));
                out.push_str(" |");
            }
        }
    }
    out.push('\n');
    out
}

/// What the page shows in a cell, in a line.
fn in_words(row: &GridRow, cell: &Cell) -> String {
    let mut words = cell.outcome().as_str().to_owned();
    let mut add = |comma: &str, text: &str| {
        words.push_str(comma);
        words.push_str(text);
    };
    match cell {
        Cell::Stops { stage, .. } => add(": ", text::short_stage(*stage)),
        Cell::Starts {
            dtype,
            marginal,
            fits,
            ..
        } => {
            add(" ", dtype.as_str());
            add(", ", &text::per_token(*marginal));
            add("/token", "");
            let fits = fits.as_ref().filter(|_| !row.pool_exceeds);
            match fits {
                Some(fits) => add(", ", &(fits.shown() + "×")),
                None if row.pool_exceeds => add(", ", text::POOL_EXCEEDS),
                None => {}
            }
        }
    }
    words
}

/// Text in which Markdown sees neither markup nor the end of a table's cell.
fn escaped(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\\' | '|' | '`' | '*' | '[' | '<' => out.extend(['\\', character]),
            _ if character.is_control() => out.push(' '),
            _ => out.push(character),
        }
    }
}

#[cfg(test)]
mod tests;
