//! Reads ExecuTorch's `tools/cmake/preset/default.cmake`: which options there are, what they are
//! when nobody sets them, and which need or exclude each other.

use std::collections::BTreeMap;

use super::cmake::{self, Argument, Command, SyntaxError};
use super::condition::{Condition, reference};
use super::{Case, OptionKind, OptionSchema, Rule, RuleKind};
use crate::preset::executorch::PREFIX;

/// `if` inside of `if` deeper than this is refused.
const DEEPEST: usize = 64;
/// More branches of one `if` than this are refused.
const LONGEST: usize = 256;

/// Reads the text of `default.cmake`.
///
/// # Errors
/// It is not CMake's language, or nests beyond all measure.
pub fn read(text: &str) -> Result<OptionSchema, SyntaxError> {
    let mut reader = Reader::default();
    for command in cmake::parse(text)? {
        reader.command(&command)?;
    }
    match reader.blocks.last() {
        Some(block) => {
            let message = format!("the end of this `{}` is missing", block.opened_by);
            Err(SyntaxError { line: block.line, message })
        }
        None => Ok(reader.schema),
    }
}

/// Adds the options that `set_overridable_option` in `text`, a file beside `default.cmake`, sets
/// without there being a definition: CMake's own files read them, so they exist.
///
/// # Errors
/// As [`read`].
pub fn read_preset(text: &str, schema: &mut OptionSchema) -> Result<(), SyntaxError> {
    for command in cmake::parse(text)? {
        let name = command.arguments.first().and_then(|argument| option(&argument.text));
        if let (true, Some(name)) = (command.name == "set_overridable_option", name) {
            schema.add(name, OptionKind::Any, Vec::new(), None);
        }
    }
    Ok(())
}

/// The name without prefix, where `text` is an option's.
fn option(text: &str) -> Option<&str> {
    let name = text.strip_prefix(PREFIX)?;
    let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    (!name.is_empty() && name.bytes().all(plain)).then_some(name)
}

/// An `if`, `foreach`, `function`, … that is open.
struct Block {
    opened_by: String,
    line: usize,
    /// The conditions of the branches before this one.
    before: Vec<Condition>,
    /// The condition of this branch.
    now: Condition,
    /// Whether what is inside is run where it stands: not so in a function's body.
    runs: bool,
}

#[derive(Default)]
struct Reader {
    schema: OptionSchema,
    /// Variables that the file sets, with what they are when.
    variables: BTreeMap<String, Vec<Case>>,
    blocks: Vec<Block>,
}

impl Reader {
    fn command(&mut self, command: &Command) -> Result<(), SyntaxError> {
        let refuse = |message: String| Err(SyntaxError { line: command.line, message });
        match command.name.as_str() {
            "if" | "foreach" | "while" | "function" | "macro" | "block" => {
                if self.blocks.len() == DEEPEST {
                    return refuse(format!("more than {DEEPEST} blocks inside of each other"));
                }
                self.open(command);
            }
            name @ ("elseif" | "else") => {
                let Some(block) = self.blocks.last_mut().filter(|b| b.opened_by == "if") else {
                    return refuse(format!("`{name}` without `if`"));
                };
                if block.before.len() == LONGEST {
                    return refuse(format!("more than {LONGEST} branches"));
                }
                block.before.push(block.now.clone().negated());
                block.now = match name {
                    "else" => Condition::Always,
                    _ => Condition::parse(&command.arguments),
                };
            }
            "endif" | "endforeach" | "endwhile" | "endfunction" | "endmacro" | "endblock" => {
                let opener = &command.name["end".len()..];
                if self.blocks.pop().is_none_or(|block| block.opened_by != opener) {
                    return refuse(format!("`{}` without `{opener}`", command.name));
                }
            }
            _ if self.blocks.iter().all(|block| block.runs) => self.run(command),
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, command: &Command) {
        let now = match command.name.as_str() {
            "if" => Condition::parse(&command.arguments),
            "block" => Condition::Always,
            _ => Condition::Unknown,
        };
        self.blocks.push(Block {
            opened_by: command.name.clone(),
            line: command.line,
            before: Vec::new(),
            now,
            runs: !matches!(command.name.as_str(), "function" | "macro"),
        });
    }

    /// When what stands here is run.
    fn when(&self) -> Condition {
        let all = self.blocks.iter().flat_map(|b| b.before.iter().chain([&b.now]).cloned());
        Condition::all(all.collect())
    }

    fn run(&mut self, command: &Command) {
        match command.name.as_str() {
            "set" => self.set(&command.arguments),
            "define_overridable_option" => self.define(command),
            "check_required_options_on" => self.rule(command, RuleKind::Requires, "REQUIRES"),
            "check_conflicting_options_on" => {
                self.rule(command, RuleKind::Conflicts, "CONFLICTS_WITH");
            }
            _ => {}
        }
    }

    fn set(&mut self, arguments: &[Argument]) {
        let [name, rest @ ..] = arguments else { return };
        let when = self.when();
        let cases = match rest {
            [value] => self.cases(&value.text, &when),
            _ => vec![Case { when, value: None }],
        };
        self.variables.entry(name.text.clone()).or_default().extend(cases);
    }

    /// What `text` is when, in a place that is run when `when` holds.
    fn cases(&self, text: &str, when: &Condition) -> Vec<Case> {
        let known = match reference(text) {
            Some(name) => self.variables.get(name).cloned(),
            None if text.contains("${") || text.contains("$ENV{") => None,
            None => Some(vec![Case { when: Condition::Always, value: Some(text.to_owned()) }]),
        };
        match known {
            None => vec![Case { when: when.clone(), value: None }],
            Some(cases) => {
                let narrow = |case: Case| Case {
                    when: Condition::all(vec![when.clone(), case.when]),
                    value: case.value,
                };
                cases.into_iter().map(narrow).collect()
            }
        }
    }

    /// `define_overridable_option(NAME "what it is" BOOL default)`
    fn define(&mut self, command: &Command) {
        let [name, doc, kind, rest @ ..] = command.arguments.as_slice() else { return };
        let Some(name) = option(&name.text) else { return };
        let kind = match kind.text.as_str() {
            "BOOL" => OptionKind::Bool,
            "STRING" => OptionKind::Text(choices(&doc.text)),
            _ => OptionKind::Any,
        };
        let default = match rest {
            _ if kind == OptionKind::Any => Vec::new(),
            [value] => self.cases(&value.text, &self.when()),
            _ => vec![Case { when: Condition::Always, value: None }],
        };
        self.schema.add(name, kind, default, Some(command.line));
    }

    /// `check_…(IF_ON A REQUIRES B C)`
    fn rule(&mut self, command: &Command, kind: RuleKind, keyword: &str) {
        let arguments: Vec<_> = command.arguments.iter().map(|a| a.text.as_str()).collect();
        let position = |word: &str| arguments.iter().position(|argument| *argument == word);
        let (Some(on), Some(others)) = (position("IF_ON"), position(keyword)) else { return };
        let Some(subject) = arguments.get(on + 1).and_then(|name| option(name)) else { return };
        let others = arguments[others + 1..].iter().take_while(|word| **word != "IF_ON");
        let others: Vec<_> = others.filter_map(|name| option(name)).map(String::from).collect();
        if others.is_empty() {
            return;
        }
        self.schema.rules.push(Rule {
            kind,
            option: subject.to_owned(),
            others,
            when: self.when(),
            line: Some(command.line),
        });
    }
}

/// The words after `Choices:` in what an option's documentation says.
fn choices(doc: &str) -> Vec<String> {
    let Some((_, list)) = doc.split_once("Choices:") else { return Vec::new() };
    let words = list.split('.').next().unwrap_or_default().split(',');
    words.map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_defaults_and_rules_are_read() {
        let schema = read(concat!(
            "if(NOT CMAKE_BUILD_TYPE STREQUAL \"Debug\")\n  set(_debug OFF)\nelse()\n",
            "  set(_debug ON)\nendif()\n",
            "define_overridable_option(EXECUTORCH_ENABLE_LOGGING \"x\" BOOL ${_debug})\n",
            "define_overridable_option(\n  EXECUTORCH_PAL \"Which. Choices: posix, minimal\"\n",
            "  STRING \"posix\"\n)\n",
            "define_overridable_option(EXECUTORCH_FILE \"x\" STRING \"${X}/${Y}.cpp\")\n",
            "if(NOT EXECUTORCH_PYBIND AND NOT EXECUTORCH_SHARED)\n",
            "check_required_options_on(\n  IF_ON EXECUTORCH_A REQUIRES\n  EXECUTORCH_B ",
            "EXECUTORCH_C)\nelseif(APPLE)\n",
            "  check_conflicting_options_on(IF_ON EXECUTORCH_A CONFLICTS_WITH EXECUTORCH_D)\n",
            "endif()\n",
            "function(check_nothing)\n  check_required_options_on(IF_ON EXECUTORCH_Z REQUIRES ",
            "EXECUTORCH_Y)\nendfunction()\n",
        ))
        .unwrap();
        insta::assert_snapshot!(schema.to_toml(), @r#"
        [options]
        ENABLE_LOGGING = { type = "BOOL", default = [{ when = 'NOT "${CMAKE_BUILD_TYPE}" STREQUAL "Debug"', value = "OFF" }, { when = '"${CMAKE_BUILD_TYPE}" STREQUAL "Debug"', value = "ON" }] }
        FILE = { type = "STRING" }
        PAL = { type = "STRING", choices = ["posix", "minimal"], default = "posix" }

        [[rule]]
        on = "A"
        requires = ["B", "C"]
        when = "NOT EXECUTORCH_PYBIND AND NOT EXECUTORCH_SHARED"

        [[rule]]
        on = "A"
        conflicts = ["D"]
        when = "NOT (NOT EXECUTORCH_PYBIND AND NOT EXECUTORCH_SHARED) AND APPLE"
        "#);
        let mut schema = schema;
        let preset = "set_overridable_option(EXECUTORCH_EXTRA ON)\nset(EXECUTORCH_NO 1)\n";
        read_preset(preset, &mut schema).unwrap();
        assert!(schema.options.contains_key("EXTRA") && !schema.options.contains_key("NO"));
    }

    #[test]
    fn blocks_that_do_not_match_have_their_line() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(error("\nif(A)\n"), "line 2: the end of this `if` is missing");
        assert_eq!(error("else()"), "line 1: `else` without `if`");
        assert_eq!(error("if(A)\nendforeach()"), "line 2: `endforeach` without `foreach`");
        assert_eq!(
            error(&"if(A)\n".repeat(100)),
            "line 65: more than 64 blocks inside of each other"
        );
    }
}
