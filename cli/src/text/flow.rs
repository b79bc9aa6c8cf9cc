//! Text that flows: broken into lines at the spaces.

/// Characters of a line.
pub(crate) const WIDTH: usize = 100;

/// Breaks a text into lines of [`WIDTH`] characters at most; a longer word stands alone.
pub(crate) fn flow(text: &str) -> String {
    indented("", "", text)
}

/// The same, its first line behind `first`, the others behind `rest`.
pub(crate) fn indented(first: &str, rest: &str, text: &str) -> String {
    within(WIDTH, first, rest, text)
}

fn within(width: usize, first: &str, rest: &str, text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut room = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        match lines.last_mut() {
            Some(line) if length < room => {
                line.push(' ');
                line.push_str(word);
                room -= length + 1;
            }
            _ => {
                let indent = if lines.is_empty() { first } else { rest };
                lines.push(format!("{indent}{word}"));
                room = width.saturating_sub(indent.chars().count() + length);
            }
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_flows_within_its_width() {
        assert_eq!(within(5, "", "", "aa bb cc dddddd e"), "aa bb\ncc\ndddddd\ne\n");
        assert_eq!(within(5, "> ", "  ", "aa bb cc"), "> aa\n  bb\n  cc\n");
        assert_eq!(within(5, "", "", ""), "");
    }
}
