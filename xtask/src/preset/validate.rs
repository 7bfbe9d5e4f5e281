//! What ExecuTorch's CMake files would refuse, told before CMake starts: unknown options, values
//! of the wrong type, requirements, conflicts, what the SDK was not built with, and what the
//! target does not have.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::backend::Metal;
use super::error::{Fault, PresetError};
use super::executorch::{From, OPTIONS, PREFIX};
use super::options::condition::is_true;
use super::options::{
    Given, OptionKind, OptionSchema, RuleKind, Violation, default_cmake, recorded,
};
use super::origin::Sourced;
use super::settings::Settings;
use super::value::Value;
use super::{Context, platform, schema};
use crate::executorch::tree::Remote;

/// Where an ExecuTorch source tree declares its options.
pub const DEFAULT_CMAKE: &str = "tools/cmake/preset/default.cmake";

/// Texts that an option takes beyond what its definition says: CMake compares them in a place
/// that is no declaration.
const CHOICES: &[(&str, &[&str])] = &[("LOG_LEVEL", &["Debug", "Info", "Error", "Fatal"])];

/// What the options are checked against.
struct Check<'a> {
    settings: &'a Settings,
    declared: Declared,
    metal: Option<Sourced<Metal>>,
    target: &'a str,
    faults: PresetError,
}

/// What is known of the options of an ExecuTorch.
struct Declared {
    schema: OptionSchema,
    /// Where that is known from, for people.
    source: String,
    /// Whether there are no others.
    all: bool,
}

/// Checks `[executorch.options]` of a preset for `target`.
pub fn check(
    settings: &Settings,
    from: Option<&Sourced<From>>,
    metal: Option<Sourced<Metal>>,
    context: &Context<'_>,
    target: &str,
) -> PresetError {
    let Some(from) = from else { return PresetError::default() };
    let version = settings.text("executorch.version").map(|set| set.value);
    let table = recorded::table(version.as_deref());
    let source = format!("ExecuTorch {}", table.version);
    let declared = match from.value {
        From::Sdk => Ok(Some(Declared { schema: table.schema, source, all: true })),
        From::Source => declared_by_path(settings, context.root),
        From::Git => fetched(settings, context.fetched).map(|found| {
            let rev = settings.text("executorch.rev").map(|set| set.value).unwrap_or_default();
            let all = table.revisions.contains(&rev);
            Some(found.unwrap_or(Declared { schema: table.schema, source, all }))
        }),
    };
    let declared = match declared {
        Ok(Some(declared)) => declared,
        Ok(None) => return PresetError::default(),
        Err(fault) => return fault.into(),
    };
    let mut check = Check { settings, declared, metal, target, faults: PresetError::default() };
    let options = check.options();
    match from.value {
        From::Sdk => check.sdk(&options, table.sdk.get(target)),
        From::Source | From::Git => check.rules(&options),
    }
    check.faults
}

/// The options that the source tree of `executorch.path` declares; nothing where there is no path,
/// which is told elsewhere.
fn declared_by_path(settings: &Settings, root: &Path) -> Result<Option<Declared>, Fault> {
    let Some(set) = settings.text("executorch.path") else { return Ok(None) };
    let schema = declared_in(&root.join(&set.value)).map_err(|error| {
        Fault::at(&set.origin, format_args!("`executorch.path`: {error:#}"))
            .help("name a checkout of ExecuTorch with its submodules")
    })?;
    let source = format!("{}/{DEFAULT_CMAKE}", set.value);
    Ok(Some(Declared { schema, source, all: true }))
}

/// The options that the revision of the preset declares; nothing where it is not in `folder` yet.
fn fetched(settings: &Settings, folder: Option<&Path>) -> Result<Option<Declared>, Fault> {
    let (Some(url), Some(rev)) = (settings.text("executorch.url"), settings.text("executorch.rev"))
    else {
        return Ok(None);
    };
    let remote = Remote { url: url.value, rev: rev.value };
    let tree = folder.map(|folder| remote.tree(folder)).filter(|tree| tree.is_dir());
    let Some(tree) = tree else { return Ok(None) };
    let schema = declared_in(&tree).map_err(|error| {
        Fault::at(&rev.origin, format_args!("`executorch.rev`: {error:#}"))
            .help("this needs ExecuTorch 1.5 or newer")
    })?;
    Ok(Some(Declared { schema, source: format!("ExecuTorch {}", remote.rev), all: true }))
}

/// The options that an ExecuTorch source tree declares.
///
/// # Errors
/// It is none, or its files cannot be read.
pub fn declared_in(tree: &Path) -> Result<OptionSchema> {
    ensure!(tree.is_dir(), "there is no folder {}", tree.display());
    let read = |file: &Path| {
        let text = std::fs::read_to_string(file);
        text.with_context(|| format!("cannot read {}", file.display()))
    };
    let unreadable = |file: &Path| format!("cannot make sense of {}", file.display());
    let file = tree.join(DEFAULT_CMAKE);
    ensure!(
        file.is_file(),
        "{} is no checkout of ExecuTorch 1.5 or newer: it lacks {DEFAULT_CMAKE}",
        tree.display()
    );
    let mut schema = default_cmake::read(&read(&file)?).with_context(|| unreadable(&file))?;
    // Presets of ExecuTorch set options that are defined nowhere.
    let folder = file.parent().into_iter().flat_map(|folder| folder.read_dir()).flatten();
    for file in folder.flatten().map(|entry| entry.path()) {
        if file.extension().is_some_and(|end| end == "cmake") {
            default_cmake::read_preset(&read(&file)?, &mut schema)
                .with_context(|| unreadable(&file))?;
        }
    }
    Ok(schema)
}

impl Check<'_> {
    /// The options that are good by themselves; the others are faults.
    fn options(&mut self) -> BTreeMap<String, Sourced<Value>> {
        let mut good = BTreeMap::new();
        for (name, set) in self.settings.table(OPTIONS.name) {
            let set = self.typed(name, set);
            match self.option(name, &set.value) {
                Ok(()) => {
                    good.insert(name.to_owned(), set);
                }
                Err(fault) => {
                    let origin = Some(set.origin.clone());
                    self.faults.push(Fault { origin, ..fault });
                }
            }
        }
        good
    }

    /// `0` and `1` of the command line and the environment, where nothing else can be written for
    /// off and on, as what they mean.
    fn typed(&self, name: &str, set: &Sourced<Value>) -> Sourced<Value> {
        let is_bool =
            self.declared.schema.options.get(name).is_some_and(|o| o.kind == OptionKind::Bool);
        match (&set.value, set.origin.place()) {
            (Value::Integer(number @ (0 | 1)), None) if is_bool => {
                Sourced { value: Value::Bool(*number == 1), origin: set.origin.clone() }
            }
            _ => set.clone(),
        }
    }

    fn option(&self, name: &str, value: &Value) -> Result<(), Fault> {
        if let Some(short) = name.strip_prefix(PREFIX) {
            return Err(Fault::new(format_args!(
                "`{name}`: options are written without `{PREFIX}`, as `{short} = {value}`"
            )));
        }
        let Some(definition) = self.declared.schema.options.get(name) else {
            if !self.declared.all {
                // A revision that nobody has looked at yet may have it.
                return Ok(());
            }
            let near = schema::nearest(name, self.declared.schema.options.keys().cloned());
            let hint = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return Err(Fault::new(format_args!(
                "{} has no option `{PREFIX}{name}`{hint}",
                self.declared.source
            )));
        };
        let extra = CHOICES.iter().find(|(option, _)| *option == name).map(|(_, texts)| *texts);
        let wrong = |expected: &str| {
            Err(Fault::new(format_args!("`{name}`: expected {expected}, found {value}")))
        };
        match (&definition.kind, value) {
            (OptionKind::Bool, Value::Bool(_)) | (OptionKind::Any, _) => Ok(()),
            (OptionKind::Bool, _) => wrong("true or false"),
            (OptionKind::Text(_), Value::Bool(_)) => wrong("a string or a whole number"),
            (OptionKind::Text(choices), value) => {
                let text = value.cmake_text();
                let declared: Vec<_> = choices.iter().map(String::as_str).collect();
                let choices = extra.unwrap_or(&declared);
                if choices.is_empty() || choices.iter().any(|c| c.eq_ignore_ascii_case(&text)) {
                    return Ok(());
                }
                wrong(&choices.iter().map(|c| format!("{c:?}")).collect::<Vec<_>>().join(" or "))
            }
        }
    }

    /// Requirements, conflicts and limits of the platform, for a build from source.
    fn rules(&mut self, options: &BTreeMap<String, Sourced<Value>>) {
        for (name, set) in options {
            if let Some(why) = self.limit(name)
                && is_true(&set.value.cmake_text())
            {
                let what = format_args!("`{name}` cannot be on for {}: {why}", self.target);
                self.faults.push(Fault::at(&set.origin, what));
            }
        }
        let mut given = Given {
            options: options.iter().map(|(k, v)| (k.clone(), v.value.cmake_text())).collect(),
            variables: self.variables(),
        };
        if let Some(metal) = self.metal.clone() {
            self.backend(&metal, options);
            for name in metal.value.options() {
                given.options.insert((*name).to_owned(), "ON".to_owned());
            }
        }
        let mut needs: BTreeMap<String, Vec<Violation>> = BTreeMap::new();
        for violation in self.declared.schema.violations(&given) {
            match violation.kind {
                RuleKind::Conflicts => self.conflict(&violation, options),
                RuleKind::Requires => {
                    let root = violation.because_of.clone().unwrap_or(violation.option.clone());
                    needs.entry(root).or_default().push(violation);
                }
            }
        }
        for (root, violations) in needs {
            self.requirement(&root, &violations, options);
        }
    }

    /// Why `option` cannot be on for the target. `BUILD_METAL` means this project's delegate where
    /// the preset does not say otherwise, and that is for every target.
    fn limit(&self, option: &str) -> Option<&'static str> {
        let own = self.metal.as_ref().is_some_and(|metal| metal.value == Metal::Etmetal);
        if own && option == "BUILD_METAL" { None } else { platform::limit(option, self.target) }
    }

    /// Options that the backend has on, or off, say the same or are not there.
    fn backend(&mut self, metal: &Sourced<Metal>, options: &BTreeMap<String, Sourced<Value>>) {
        let word = metal.value.word();
        for name in metal.value.options() {
            let Some(set) = options.get(*name) else { continue };
            if !is_true(&set.value.cmake_text()) {
                let what = format_args!(
                    "`{name}` has to be on for `backend.metal = \"{word}\"` ({})",
                    metal.origin
                );
                self.faults.push(Fault::at(&set.origin, what).help("remove the line"));
            }
        }
        if let Some(set) = options.get("BUILD_METAL")
            && metal.value == Metal::Off
            && is_true(&set.value.cmake_text())
        {
            let what = format_args!(
                "`BUILD_METAL` is on, but `backend.metal` is \"off\" ({})",
                metal.origin
            );
            let help = "remove the line, or set `backend.metal`";
            self.faults.push(Fault::at(&set.origin, what).help(help));
        }
    }

    /// Several options that one option needs are one fault.
    fn requirement(
        &mut self,
        root: &str,
        violations: &[Violation],
        options: &BTreeMap<String, Sourced<Value>>,
    ) {
        let names: Vec<_> = violations.iter().map(|v| format!("`{}`", v.other)).collect();
        let own = |metal: &&Sourced<Metal>| metal.value.options().contains(&root);
        let from_backend = self.metal.as_ref().filter(own).filter(|_| !options.contains_key(root));
        let subject = match from_backend {
            Some(_) => "`backend.metal`".to_owned(),
            None => format!("`{root}`"),
        };
        let turned_off = violations.iter().find_map(|v| options.get(&v.other));
        let origin = from_backend
            .map(|metal| &metal.origin)
            .or_else(|| options.get(root).map(|set| &set.origin))
            .or_else(|| turned_off.map(|set| &set.origin));
        let line = violations.iter().find_map(|v| v.line);
        let place =
            line.map_or(String::new(), |line| format!(" ({}:{line})", self.declared.source));
        let mut fault = Fault::new(format_args!("{subject} requires {}{place}", names.join(", ")));
        fault.origin = origin.cloned();
        let mut set = Vec::new();
        let mut off = Vec::new();
        for violation in violations {
            let other = &violation.other;
            match options.get(other) {
                // What someone turned off is theirs to turn on.
                Some(set) => off.push(format!("`{other}` is off at {}", set.origin)),
                None if self.is_text(other) => set.push(format!("{other} = \"…\"")),
                None => {
                    set.push(format!("{other} = true"));
                    fault = fault.fix(format!("{}.{other}", OPTIONS.name), Value::Bool(true));
                }
            }
        }
        let mut help = Vec::new();
        if !set.is_empty() {
            help.push(format!("set under `[{}]`: {}", OPTIONS.name, set.join(", ")));
        }
        if !off.is_empty() {
            help.push(format!("{}: turn it on, or {subject} off", off.join(", ")));
        }
        self.faults.push(fault.help(help.join("; ")));
    }

    fn is_text(&self, option: &str) -> bool {
        let definition = self.declared.schema.options.get(option);
        definition.is_some_and(|known| matches!(known.kind, OptionKind::Text(_)))
    }

    fn conflict(&mut self, violation: &Violation, options: &BTreeMap<String, Sourced<Value>>) {
        let (a, b) = (&violation.option, &violation.other);
        let mut fault = Fault::new(format_args!("`{a}` and `{b}` cannot both be on"));
        fault.origin = options.get(a).or_else(|| options.get(b)).map(|set| set.origin.clone());
        let other = match options.get(b) {
            Some(set) => format!("`{b}` is set at {}", set.origin),
            None => format!("`{b}` is on by itself: set `{b} = false`"),
        };
        self.faults.push(fault.help(format_args!("turn one of them off; {other}")));
    }

    /// What an SDK that is built already does not do. `built` is what it was built with.
    fn sdk(
        &mut self,
        options: &BTreeMap<String, Sourced<Value>>,
        built: Option<&BTreeMap<String, String>>,
    ) {
        for (name, set) in options {
            let wanted = set.value.cmake_text();
            let have = built.and_then(|built| built.get(name)).map(String::as_str);
            let same = match have {
                Some(have) => {
                    have.eq_ignore_ascii_case(&wanted)
                        || matches!(set.value, Value::Bool(flag) if flag == is_true(have))
                }
                None => set.value == Value::Bool(false),
            };
            if same {
                continue;
            }
            let how = match have {
                Some(have) => format!("was built with `{name} = {have}`"),
                None => format!("was built without `{name}`"),
            };
            let what =
                format_args!("`{name} = {}`: the SDK of {} {how}", set.value, self.declared.source);
            self.faults.push(Fault::at(&set.origin, what).help(
                "remove it, or build ExecuTorch from source with `executorch.from = \"git\"`",
            ));
        }
    }

    /// What CMake itself sets for the target.
    fn variables(&self) -> BTreeMap<String, Option<String>> {
        let apple = platform::is_apple(self.target);
        let system = match self.target {
            target if platform::is_ios(target) => "iOS",
            _ if apple => "Darwin",
            _ => "Linux",
        };
        let profile = self.settings.text("build.profile").map(|set| set.value);
        let build_type = match profile.as_deref() {
            Some("dev" | "test") => "Debug",
            _ => "Release",
        };
        let on = |on: bool| on.then(|| "1".to_owned());
        [
            ("APPLE", on(apple)),
            ("UNIX", on(true)),
            ("IOS", on(platform::is_ios(self.target))),
            ("WIN32", None),
            ("MSVC", None),
            ("ANDROID", None),
            // Of a toolchain file that is not used here.
            ("SDK_NAME", None),
            ("CMAKE_SYSTEM_NAME", Some(system.to_owned())),
            ("CMAKE_BUILD_TYPE", Some(build_type.to_owned())),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}
