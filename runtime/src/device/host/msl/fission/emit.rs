//! The steps of a threadgroup as C++.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use super::super::kernels::KernelInfo;
use super::super::parameters::ParameterKind;
use super::builtins::{Builtin, Builtins};
use super::columns::columns;
use super::definitions::{Definition, definitions};
use super::gather;
use super::operations::Held;
use super::reuse::Reuse;
use super::statement::{Threadgroup, Tokens, names, text};
use super::steps::{Analysis, Step, Work};
use super::{Fission, Refusal, Shape};

/// Writes a kernel as loops: over the threads of one threadgroup, and if that pays also over
/// neighbouring threadgroups.
pub(super) fn emit(kernel: &KernelInfo, analysis: &Analysis<'_, '_>) -> Result<Fission, Refusal> {
    let mut emitter = Emitter::new(kernel, analysis, Reuse::find(analysis, MOST_ELEMENTS)?);
    emitter.steps()?;
    let mut code = emitter.finish();
    let (shape, entry) = match columns(kernel, analysis) {
        Ok(function) => {
            code.push_str(&function);
            (Shape::Columns, "MSL_COLUMNS_ENTRY")
        }
        Err(_) => (Shape::Rows, "MSL_ROWS_ENTRY"),
    };
    let (size, axes) = (analysis.size.unwrap_or(0), axes(&analysis.builtins));
    let held = threadgroup_bytes(analysis);
    _ = writeln!(code, "{entry}(({axes}, {size}), ({held}))");
    Ok(Fission { code, shape })
}

/// How the threads of a group lie, as arguments of templates in `fission.h`.
fn axes(builtins: &Builtins) -> String {
    let width = builtins.plane.as_ref().map_or(0, |plane| plane.width);
    format!("{}, {}, {width}", builtins.axis, builtins.one_group)
}

/// The bytes of the threadgroup variables, each in steps of 16 as on fibers (`threadgroup.h`).
fn threadgroup_bytes(analysis: &Analysis<'_, '_>) -> String {
    let size = |t: &Threadgroup<'_, '_>| {
        format!("(sizeof({} {}) + 15) / 16 * 16", text(t.ty), text(t.dimensions))
    };
    let all: Vec<_> = analysis.threadgroup.iter().map(size).collect();
    if all.is_empty() { "0".to_owned() } else { all.join(" + ") }
}

/// What declares the parameters that are the same for all groups.
pub(super) fn buffers(kernel: &KernelInfo) -> String {
    let mut out = String::new();
    for (place, parameter) in kernel.parameters.iter().enumerate() {
        if let ParameterKind::Buffer { index, .. } = parameter.kind {
            let name = &parameter.name;
            _ = writeln!(
                out,
                "  const msl::Argument<msl::fission::parameter<&{}, {place}>, msl::Buffer<{index}>> \
                 msl_argument{place}(msl_launch);\n  \
                 auto&& {name} = msl_argument{place}.get(msl_first);",
                kernel.function
            );
        }
    }
    out
}

/// Threads from which on a loop over them becomes vectors by itself: loops over fewer are unrolled
/// before.
const FEW_THREADS: u32 = 32;
/// The same of a loop that stores nothing and is therefore unrolled sooner.
const FEW_WITHOUT_STORES: u32 = 96;

/// Most elements of a loop of which a value is kept.
const MOST_ELEMENTS: u64 = 16384;

pub(super) struct Emitter<'k, 'a, 's> {
    kernel: &'k KernelInfo,
    pub(super) analysis: &'k Analysis<'a, 's>,
    out: String,
    /// What the threads do in the phase that is open.
    pending: Vec<&'k Work<'a, 's>>,
    /// Where the value of a variable is kept from one phase to the next.
    pub(super) kept: HashMap<&'s str, String>,
    pub(super) phases: usize,
    loops: usize,
    reuse: Reuse,
    /// The number of the loop in whose lanes a variable is gathered.
    pub(super) lanes: HashMap<&'s str, usize>,
}

impl<'k, 'a, 's> Emitter<'k, 'a, 's> {
    fn new(kernel: &'k KernelInfo, analysis: &'k Analysis<'a, 's>, reuse: Reuse) -> Self {
        let (pending, kept) = (Vec::new(), HashMap::new());
        let lanes = HashMap::new();
        let out = String::new();
        Emitter { kernel, analysis, out, pending, kept, phases: 0, loops: 0, reuse, lanes }
    }

    pub(super) fn line(&mut self, text: &str) {
        self.out.push_str("  ");
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn steps(&mut self) -> Result<(), Refusal> {
        let steps = &self.analysis.steps;
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Varying(work) => self.pending.push(work),
                Step::Uniform(work) => {
                    let reads = !work.effects.loaded.is_empty() || self.reads_threadgroup(work);
                    if reads && self.pending_stores() {
                        self.phase(at, &[])?;
                    }
                    self.line(&work.code());
                }
                Step::Once(work) => {
                    self.phase(at, &[])?;
                    let used = self.definitions(names(work.tokens), &HashSet::new())?;
                    self.line(&format!("{{ constexpr uint msl_thread = 0; {used}"));
                    self.line(&format!("  {} }}", work.code()));
                }
                Step::Barrier => {
                    self.phase(at, &[])?;
                }
                Step::Guard { condition, varies } => self.guard(at, condition, *varies)?,
                Step::Collective(collective) => self.collective(at, collective)?,
                Step::Simd(simd) => self.simd(at, simd)?,
                Step::Loop(of) => {
                    self.phase(at, &[])?;
                    let code = gather::rows(self.analysis, &self.reuse, of, self.loops);
                    self.out.push_str(&code);
                    for gathered in &of.gathered {
                        for name in gathered.names() {
                            self.lanes.insert(name, self.loops);
                        }
                    }
                    self.loops += 1;
                }
            }
        }
        self.phase(steps.len(), &[]).map(|_| ())
    }

    fn reads_threadgroup(&self, work: &Work<'a, 's>) -> bool {
        names(work.tokens).any(|n| self.analysis.threadgroup.iter().any(|t| t.name == n))
    }

    fn pending_stores(&self) -> bool {
        let stores = |w: &&Work<'a, 's>| {
            let writes = |n: &'s str| !self.analysis.variables.contains_key(n);
            w.effects.opaque
                || w.effects.stored.iter().any(|n| writes(n))
                || w.effects.mutated.iter().any(|n| writes(n))
        };
        self.pending.iter().any(stores)
    }

    fn guard(&mut self, at: usize, condition: Tokens<'a, 's>, varies: bool) -> Result<(), Refusal> {
        if !varies {
            // Loads before it that are not needed if the group returns can as well come later.
            if self.pending_stores() {
                self.phase(at, &[])?;
            }
            self.line(&format!("if ({}) return true;", text(condition)));
            return Ok(());
        }
        self.phase(at, &[])?;
        let used = self.definitions(names(condition), &HashSet::new())?;
        let condition = text(condition);
        self.line("{ bool msl_leaves = false;");
        self.line("MSL_PHASE for (uint msl_thread = 0; msl_thread < msl_count; msl_thread++) {");
        self.line(&format!("  {used} msl_leaves |= bool({condition}); }}"));
        self.line("if (msl_leaves) return false; }");
        Ok(())
    }

    /// Code that defines the variables among `used` in a phase, except for `own`.
    pub(super) fn definitions(
        &self,
        used: impl Iterator<Item = &'s str>,
        own: &HashSet<&'s str>,
    ) -> Result<String, Refusal> {
        let first = |name: &str| {
            let of = self.analysis.builtins.by_name.get(name)?;
            Some(builtin(self.kernel, name, of, "msl_at(msl_thread)"))
        };
        definitions(self.analysis, used, own, first, |name, variable| {
            match (variable.varies, variable.cheap, self.kept.get(name)) {
                (false, ..) => Definition::There,
                (true, true, _) => Definition::Again,
                (true, false, Some(place)) => {
                    Definition::Kept(format!("auto {name} = {place}[msl_thread];"))
                }
                (true, false, None) => Definition::Lost,
            }
        })
    }

    /// Closes the phase before step `next`, if there is something to do for it: all threads do
    /// what is pending, and keep what a later step uses and the values `extra`, whose arrays are
    /// given back.
    pub(super) fn phase(
        &mut self,
        next: usize,
        extra: &[Tokens<'a, 's>],
    ) -> Result<Vec<String>, Refusal> {
        self.gathering_phase(next, extra, None)
    }

    /// As `phase`, and gathers a value of all threads in a register.
    pub(super) fn gathering_phase(
        &mut self,
        next: usize,
        extra: &[Tokens<'a, 's>],
        held: Option<Held<'a, 's>>,
    ) -> Result<Vec<String>, Refusal> {
        let parts = keepers(self.analysis, std::mem::take(&mut self.pending), next);
        if parts.pending.is_empty() && extra.is_empty() && held.is_none() {
            return Ok(Vec::new());
        }
        let gathered = held.iter().flat_map(|h| names(h.value));
        let used = parts.used().chain(extra.iter().flat_map(|e| names(e))).chain(gathered);
        let definitions = self.definitions(used, &parts.own)?;
        let values = parts.values(extra);
        let body: Vec<_> = parts.pending.iter().map(|w| w.code()).collect();
        let phase = self.write_phase(&definitions, &body, &values, held);
        let array = |at: usize| format!("msl::fission::array<{at}>(msl_kept{phase})");
        for (at, name) in parts.keep.iter().enumerate() {
            self.kept.insert(name, array(at));
        }
        Ok((parts.keep.len()..values.len()).map(array).collect())
    }

    fn write_phase(
        &mut self,
        definitions: &str,
        body: &[String],
        values: &[String],
        held: Option<Held<'a, 's>>,
    ) -> usize {
        let phase = self.phases;
        let gathers_alone = held.is_some() && values.is_empty();
        let (mut parameter, mut argument) = (String::new(), String::new());
        if let Some(Held { ty, .. }) = &held {
            self.line(&format!("{ty} msl_held{phase};"));
            parameter = format!(", {ty}& msl_held");
            argument = format!(", msl_held{phase}");
        }
        self.line(&format!(
            "auto msl_phase{phase} = [&](const uint msl_thread{parameter}) MSL_ALWAYS_INLINE {{"
        ));
        self.line(&format!("  {definitions}"));
        for statement in body {
            self.line(&format!("  {statement}"));
        }
        if let Some(Held { element, value, .. }) = held {
            self.line(&format!("  msl_held.take({element}({}));", text(value)));
        }
        self.line(&format!("  return msl::fission::pack({}); }};", values.join(", ")));
        self.keep(&format!("decltype(msl_phase{phase}(0u{argument}))"));
        let few = if gathers_alone { FEW_WITHOUT_STORES } else { FEW_THREADS };
        let is_short = self.analysis.size.is_some_and(|size| size < few);
        let pragma = if is_short { "MSL_SHORT_PHASE" } else { "MSL_PHASE" };
        self.line(&format!(
            "{pragma} for (uint msl_thread = 0; msl_thread < msl_count; msl_thread++)"
        ));
        self.line(&format!(
            "  msl_kept{phase}.set(msl_thread, msl_phase{phase}(msl_thread{argument}));"
        ));
        phase
    }

    /// Makes room for what all threads keep of this phase: a value of the type `pack` of each.
    pub(super) fn keep(&mut self, pack: &str) {
        let phase = self.phases;
        self.phases += 1;
        let memory = if phase == 0 { "0".to_owned() } else { format!("msl_end{}", phase - 1) };
        self.line(&format!("using msl_Kept{phase} = msl::fission::Kept<{pack}, msl_most>;"));
        self.line(&format!(
            "constexpr ulong msl_end{phase} = {memory} + sizeof(msl_Kept{phase}); \
             static_assert(msl_end{phase} <= msl::fission::elements_offset);"
        ));
        self.line(&format!(
            "msl_Kept{phase}& msl_kept{phase} = *(msl_Kept{phase}*)(msl_memory + {memory});"
        ));
    }

    /// The function of one threadgroup: false if the threads of this group have to run on fibers.
    fn finish(self) -> String {
        let analysis = self.analysis;
        let most = match analysis.size {
            Some(size) => format!("constexpr uint msl_count = {size}, msl_most = {size};"),
            None => "const uint msl_count = msl_size; constexpr uint msl_most = 1024;".to_owned(),
        };
        let mut out = format!(
            "static MSL_ALWAYS_INLINE bool msl_group(const msl::Launch* msl_launch, \
             char* msl_memory, const msl::uint3 msl_where, const uint msl_size) {{\n  {most}\n  \
             const auto msl_at = [&](const uint msl_number) MSL_ALWAYS_INLINE {{ return \
             msl::fission::thread_of<{}>(msl_launch, msl_where, msl_count, msl_number); }};\n  \
             const msl::Thread msl_first = msl_at(0);\n",
            axes(&analysis.builtins)
        );
        out.push_str(&buffers(self.kernel));
        for (name, of) in &analysis.builtins.by_name {
            out.push_str(&format!("  {}\n", builtin(self.kernel, name, of, "msl_first")));
        }
        out.push_str(&checks(self.kernel, analysis));
        for variable in &analysis.threadgroup {
            out.push_str(&format!(
                "  alignas(64) {} {}{};\n",
                text(variable.ty),
                variable.name,
                text(variable.dimensions)
            ));
        }
        out.push_str(&self.out);
        out.push_str("  return true;\n}\n");
        out
    }
}

/// Code that defines the parameter `name`, which the launch fills in, for the thread `at`.
pub(super) fn builtin(kernel: &KernelInfo, name: &str, of: &Builtin, at: &str) -> String {
    let ty = format!("msl::fission::parameter<&{}, {}>", kernel.function, of.place);
    let attribute = &of.attribute;
    format!(
        "const {ty} {name} = msl::Argument<{ty}, msl::builtin::{attribute}>(msl_launch).get({at});"
    )
}

/// Code that leaves the group to fibers if its buffers do not fit the loops.
pub(super) fn checks(kernel: &KernelInfo, analysis: &Analysis<'_, '_>) -> String {
    let mut out = String::new();
    for size in &analysis.sizes {
        _ = writeln!(out, "  if ((ulong)({}) != msl_count) return false;", text(size));
    }
    for (number, of) in analysis.loops().enumerate() {
        out.push_str(&gather::span(of, number));
    }
    for apart in &analysis.apart {
        out.push_str(&gather::check_apart(kernel, apart));
    }
    out
}

/// What a phase does and keeps.
pub(super) struct Parts<'k, 'a, 's> {
    pub pending: Vec<&'k Work<'a, 's>>,
    /// Variables that it declares.
    pub own: HashSet<&'s str>,
    /// Variables that later steps use.
    pub keep: Vec<&'s str>,
}

/// The parts of the phase before step `next`.
pub(super) fn keepers<'k, 'a, 's>(
    analysis: &Analysis<'a, 's>,
    mut pending: Vec<&'k Work<'a, 's>>,
    next: usize,
) -> Parts<'k, 'a, 's> {
    let variables = &analysis.variables;
    let is_cheap = |name: &str| variables.get(name).is_some_and(|v| v.cheap);
    pending.retain(|w| w.declares.is_none_or(|d| !is_cheap(d.name)));
    let own: HashSet<&str> = pending.iter().filter_map(|w| w.declares).map(|d| d.name).collect();
    let written = pending
        .iter()
        .flat_map(|w| w.effects.mutated.iter().chain(&w.effects.stored).chain(&w.effects.passed));
    let mut keep: Vec<&str> = own.iter().chain(written).copied().collect();
    keep.retain(|name| variables.get(name).is_some_and(|v| v.varies && !v.cheap));
    keep.retain(|name| analysis.steps[next..].iter().any(|s| s.mentions(name)));
    keep.sort_unstable();
    keep.dedup();
    Parts { pending, own, keep }
}

impl<'s> Parts<'_, '_, 's> {
    /// The names that it uses.
    pub(super) fn used(&self) -> impl Iterator<Item = &'s str> {
        self.pending.iter().flat_map(|w| names(w.tokens)).chain(self.keep.iter().copied())
    }

    /// What each thread leaves: the variables to keep, and the values `extra`.
    pub(super) fn values(&self, extra: &[Tokens<'_, '_>]) -> Vec<String> {
        let kept = self.keep.iter().map(|n| (*n).to_owned());
        kept.chain(extra.iter().map(|e| format!("({})", text(e)))).collect()
    }
}

/// An operand without a cast to the type of the operation, which is done there anyhow.
pub(super) fn without_cast<'a, 's>(
    analysis: &Analysis<'a, 's>,
    value: Tokens<'a, 's>,
    memory: &str,
) -> Tokens<'a, 's> {
    let Some(variable) = analysis.threadgroup.iter().find(|t| t.name == memory) else {
        return value;
    };
    match value {
        [cast, open, ty, close, left, inner @ .., right]
            if cast.is("static_cast")
                && open.is("<")
                && close.is(">")
                && left.is("(")
                && right.is(")")
                && inner.len() == 1
                && text(variable.ty) == ty.text =>
        {
            inner
        }
        _ => value,
    }
}
