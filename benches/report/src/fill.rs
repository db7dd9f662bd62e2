//! Sentences in lines of the width that the documents have.

const WIDTH: usize = 120;

pub(crate) fn fill(sentences: &str) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in sentences.split_whitespace() {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            text.push('\n');
            width = 0;
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += length;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_wide_as_they_may_be() {
        let text = fill(&"µµµµ ".repeat(30));
        assert_eq!(text.lines().map(|line| line.chars().count()).collect::<Vec<_>>(), [119, 29]);
        assert_eq!(fill(" a\nb  c "), "a b c");
    }
}
