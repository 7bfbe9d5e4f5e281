//! The contents of a program, for people.

use std::fmt::Write;

use super::contents::{
    BlobContents, Contents, DelegateContents, HashedBlob, MethodContents, ModelContents,
    SymbolContents,
};
use super::shaders::{KernelContents, ShaderContents};
use crate::output::Style;

/// One line for each kernel of each source: how the host device runs it, and why not better.
pub fn render_kernels(contents: &Contents<'_>, style: Style) -> String {
    let mut out = Indented { text: String::new(), style };
    for method in &contents.methods {
        let models = method.delegates.iter().filter_map(|d| d.model.as_ref());
        for shader in models.flat_map(|m| &m.shaders) {
            for kernel in &shader.kernels {
                out.line(0, &format!("{} {} {}", method.name, shader.name, told(kernel)));
            }
            if let Some(problem) = &shader.problem {
                let first = problem.lines().next().unwrap_or_default();
                out.line(0, &format!("{} {}  {first}", method.name, shader.name));
            }
        }
    }
    out.text
}

/// A kernel's name and how the host device runs it.
fn told(kernel: &KernelContents) -> String {
    let why = kernel.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    format!("{}  {}{why}", kernel.name, kernel.mode)
}

/// The whole text.
pub fn render(contents: &Contents<'_>, style: Style) -> String {
    let mut out = Indented { text: String::new(), style };
    out.line(0, &format!("{}  {} bytes", contents.file, grouped(contents.bytes)));
    out.line(
        0,
        &format!(
            "schema {}, flatbuffer {} bytes, constants {} bytes",
            contents.schema_version,
            grouped(contents.flatbuffer_bytes),
            grouped(contents.constant_bytes)
        ),
    );
    for blob in &contents.blobs {
        out.line(0, &format!("blob {}  {}", blob.key, place(blob)));
    }
    for method in &contents.methods {
        out.method(method);
    }
    out.text
}

struct Indented {
    text: String,
    style: Style,
}

impl Indented {
    fn line(&mut self, depth: usize, line: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{:1$}{line}", "", 2 * depth);
    }

    fn method(&mut self, method: &MethodContents<'_>) {
        self.line(0, "");
        self.line(0, &format!("method {}", method.name));
        for (i, input) in method.inputs.iter().enumerate() {
            self.line(1, &format!("input {i}  {input}"));
        }
        for (i, output) in method.outputs.iter().enumerate() {
            self.line(1, &format!("output {i}  {output}"));
        }
        let planned = usize::try_from(method.planned_bytes).unwrap_or(usize::MAX);
        self.line(1, &format!("planned memory  {} bytes", grouped(planned)));
        self.line(1, &format!("steps  {}", method.steps.join(", ")));
        for (i, delegate) in method.delegates.iter().enumerate() {
            self.delegate(i, delegate);
        }
    }

    fn delegate(&mut self, index: usize, delegate: &DelegateContents<'_>) {
        self.line(1, &format!("delegate {index}  {}", delegate.backend));
        for spec in &delegate.compile_specs {
            self.line(2, &format!("option {} = {}", spec.key, spec.value));
        }
        match &delegate.model {
            Some(model) => self.model(model),
            None => self.line(2, &format!("payload  {} bytes", grouped(delegate.payload_bytes))),
        }
        for problem in &delegate.problems {
            let text = self.style.red("problem");
            self.line(2, &format!("{text}  {}", problem.replace('\n', " ")));
        }
    }

    fn model(&mut self, model: &ModelContents<'_>) {
        self.line(2, &format!("library  {}  {}", model.target, hashed(&model.library)));
        let weights = model.weights.as_ref().map_or("none".into(), hashed);
        self.line(2, &format!("weights  {weights}"));
        for library in &model.libraries {
            let mark = self.mark(library.found);
            self.line(2, &format!("needs {mark} {}", library.name));
        }
        let (ours, others): (Vec<_>, Vec<_>) =
            model.symbols.iter().partition(|s| s.name.starts_with("aoti_"));
        for symbol in ours {
            let mark = self.mark(symbol.provided);
            self.line(2, &format!("symbol {mark} {}", symbol.name));
        }
        self.line(2, &self.system_symbols(&others));
        for shader in &model.shaders {
            self.shader(shader);
        }
    }

    fn shader(&mut self, shader: &ShaderContents<'_>) {
        self.line(2, &format!("shader {}  {} lines", shader.name, shader.lines));
        if let Some(problem) = &shader.problem {
            let text = self.style.red("problem");
            self.line(3, &format!("{text}  {}", problem.replace('\n', "\n        ")));
        }
        for kernel in &shader.kernels {
            let limit = kernel.max_threads_per_threadgroup;
            let limit = limit.map(|n| format!("  at most {n} threads in a threadgroup"));
            let limit = limit.unwrap_or_default();
            self.line(3, &format!("kernel {}{limit}", told(kernel)));
            for parameter in &kernel.parameters {
                self.line(4, &parameter.text());
            }
        }
    }

    /// One line about all that is not ours: a model needs dozens of them.
    fn system_symbols(&self, symbols: &[&SymbolContents<'_>]) -> String {
        let count = |provided| symbols.iter().filter(|s| s.provided == provided).count();
        let mut text = format!("symbols of the system  {}", symbols.len());
        let missing: Vec<&str> = symbols
            .iter()
            .filter(|s| s.provided == Some(false) && !s.weak)
            .map(|s| s.name)
            .collect();
        if count(None) > 0 {
            text += ", not looked for on this machine";
        } else if missing.is_empty() {
            let _ = write!(text, ", {} all here", self.mark(Some(true)));
        } else {
            let _ = write!(text, ", {} {}", self.mark(Some(false)), missing.join(" "));
        }
        text
    }

    fn mark(&self, provided: Option<bool>) -> String {
        match provided {
            Some(true) => self.style.green("✓"),
            Some(false) => self.style.red("missing"),
            None => "?".into(),
        }
    }
}

fn hashed(blob: &HashedBlob<'_>) -> String {
    format!("{}, SHA-256 {}", place(&blob.blob), blob.sha256)
}

fn place(blob: &BlobContents<'_>) -> String {
    format!(
        "{} bytes at {} (aligned to {})",
        grouped(blob.bytes),
        grouped(blob.offset),
        grouped(blob.alignment)
    )
}

/// `1234567` as `1,234,567`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn digits_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
