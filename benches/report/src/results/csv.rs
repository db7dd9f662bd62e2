//! Reading CSV: after a line of names, lines of cells, of which some are quoted. A line that begins with `#` is a
//! comment.

pub(super) struct Csv {
    pub(super) comments: Vec<String>,
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Csv {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut csv = Csv { comments: Vec::new(), names: Vec::new(), rows: Vec::new() };
        for (line, index) in text.lines().zip(1..) {
            if let Some(comment) = line.strip_prefix('#') {
                csv.comments.push(comment.trim().to_owned());
                continue;
            }
            let cells = cells(line).ok_or_else(|| format!("line {index}: a quote is not closed"))?;
            if csv.names.is_empty() {
                csv.names = cells;
            } else if cells.len() == csv.names.len() {
                csv.rows.push(cells);
            } else {
                return Err(format!("line {index}: {} cells, where there are {} names", cells.len(), csv.names.len()));
            }
        }
        Ok(csv)
    }

    /// The cell `wanted` of the row that has these cells, of which each is a name and a value.
    pub(super) fn get(&self, row: &[(&str, &str)], wanted: &str) -> Result<&str, String> {
        let index = |name: &str| {
            let index = self.names.iter().position(|known| known == name);
            index.ok_or_else(|| format!("there is no column `{name}`"))
        };
        let mut cells = Vec::new();
        for (name, value) in row {
            cells.push((index(name)?, *value));
        }
        let wanted = index(wanted)?;
        let found = self.rows.iter().find(|row| cells.iter().all(|(index, value)| row[*index] == *value));
        found.map(|row| row[wanted].as_str()).ok_or_else(|| {
            let cells: Vec<String> = row.iter().map(|(name, value)| format!("{name} `{value}`")).collect();
            format!("there is no row with {}", cells.join(", "))
        })
    }
}

/// `None` where a quote is not closed.
fn cells(line: &str) -> Option<Vec<String>> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            // A quote within quotes is doubled.
            '"' if is_quoted && characters.peek() == Some(&'"') => cells.last_mut()?.extend(characters.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            other => cells.last_mut()?.push(other),
        }
    }
    (!is_quoted).then_some(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# a machine\n# more\nwhat,who,median\narm,\"one, two\",1.5\narm,\"the \"\"third\"\"\",2\nfire,,3\n";

    #[test]
    fn a_cell_is_found_by_the_others_of_its_row() {
        let csv = Csv::parse(TEXT).unwrap();
        assert_eq!(csv.comments, ["a machine", "more"]);
        assert_eq!(csv.get(&[("what", "arm"), ("who", "one, two")], "median"), Ok("1.5"));
        assert_eq!(csv.get(&[("who", "the \"third\"")], "median"), Ok("2"));
        assert_eq!(csv.get(&[("who", "")], "what"), Ok("fire"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let csv = Csv::parse(TEXT).unwrap();
        let problem = csv.get(&[("what", "arm"), ("who", "nobody")], "median").unwrap_err();
        assert_eq!(problem, "there is no row with what `arm`, who `nobody`");
        assert_eq!(csv.get(&[("whom", "")], "what").unwrap_err(), "there is no column `whom`");
        assert_eq!(csv.get(&[], "mean").unwrap_err(), "there is no column `mean`");
    }

    #[test]
    fn a_line_that_is_no_row_is_named() {
        assert_eq!(Csv::parse("a,b\n1,2\n1,2,3\n").err().unwrap(), "line 3: 3 cells, where there are 2 names");
        assert_eq!(Csv::parse("# m\na,b\n1,\"2\n").err().unwrap(), "line 3: a quote is not closed");
    }
}
