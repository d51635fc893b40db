//! Jupyter notebooks as text: the cells in order, with what they printed.

use serde_json::Value;

/// Longest output of one cell.
const LONGEST_OUTPUT: usize = 4000;

/// The notebook as text, if it is one.
pub(crate) fn text(bytes: &[u8]) -> Option<String> {
    let notebook: Value = serde_json::from_slice(bytes).ok()?;
    let cells = notebook.get("cells")?.as_array()?;
    let mut text = String::new();
    for (index, cell) in cells.iter().enumerate() {
        let kind = cell.get("cell_type").and_then(Value::as_str).unwrap_or("unknown");
        let id = cell.get("id").and_then(Value::as_str).map(|id| format!(" id={id}"));
        text.push_str(&format!("[cell {} · {kind}{}]\n", index + 1, id.unwrap_or_default()));
        push(&mut text, &joined(cell.get("source")));
        for output in cell.get("outputs").and_then(Value::as_array).into_iter().flatten() {
            push_output(&mut text, output);
        }
    }
    Some(text)
}

fn push_output(text: &mut String, output: &Value) {
    let kind = output.get("output_type").and_then(Value::as_str).unwrap_or("unknown");
    text.push_str(&format!("[output · {kind}]\n"));
    if let Some(name) = output.get("ename").and_then(Value::as_str) {
        let value = output.get("evalue").and_then(Value::as_str).unwrap_or_default();
        push(text, &cut(format!("{name}: {value}")));
        return;
    }
    if output.get("text").is_some() {
        push(text, &cut(joined(output.get("text"))));
    }
    for (mime, data) in output.get("data").and_then(Value::as_object).into_iter().flatten() {
        if mime == "text/plain" {
            push(text, &cut(joined(Some(data))));
        } else {
            text.push_str(&format!("[{mime}, not shown]\n"));
        }
    }
}

fn push(text: &mut String, piece: &str) {
    text.push_str(piece);
    if !piece.is_empty() && !piece.ends_with('\n') {
        text.push('\n');
    }
}

/// Text is a string, or a list of strings.
fn joined(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}

fn cut(text: String) -> String {
    match text.char_indices().nth(LONGEST_OUTPUT) {
        Some((at, _)) => format!("{}… [cut: {} bytes in all]\n", &text[..at], text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_and_what_they_printed_are_shown_and_pictures_named() {
        let notebook = serde_json::json!({"cells": [
            {"cell_type": "markdown", "source": ["# A\n", "b"]},
            {"cell_type": "code", "id": "x1", "source": "print(1)", "outputs": [
                {"output_type": "stream", "text": ["1\n"]},
                {"output_type": "display_data", "data": {"image/png": "AAAA"}},
                {"output_type": "error", "ename": "E", "evalue": "v"},
            ]},
        ]});
        let shown = text(notebook.to_string().as_bytes()).unwrap();
        assert_eq!(
            shown,
            "[cell 1 · markdown]\n# A\nb\n[cell 2 · code id=x1]\nprint(1)\n[output · stream]\n1\n\
             [output · display_data]\n[image/png, not shown]\n[output · error]\nE: v\n"
        );
        assert_eq!(text(b"{}"), None);
        assert_eq!(text(b"\xff"), None);
    }
}
