//! A kernel as loops over neighbouring threadgroups.
//!
//! In a reduction over the first dimension, neighbouring elements in memory belong to neighbouring
//! threadgroups, and those of one group lie far apart. Here some groups run together: the inner
//! loops go over the groups, with a lane for each, and the outer ones over their threads.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use super::super::kernels::KernelInfo;
use super::Refusal;
use super::analyse::is_cheap_function;
use super::collective::{Collective, Kind};
use super::definitions::{Definition, definitions};
use super::emit::{buffers, builtin, checks, keepers, without_cast};
use super::gather::{gathering_statement, index_type, kept, taken};
use super::loops::{Gathered, Loop};
use super::pays::pays;
use super::reuse::Reuse;
use super::statement::{Declaration, Tokens, names, text};
use super::steps::{Analysis, Step, Work};

/// Most elements of a loop of which a value is kept for each group.
const MOST_ELEMENTS: u64 = 2048;

/// The function of some neighbouring threadgroups.
///
/// # Errors
/// That does not fit, or does not pay.
pub(super) fn columns(kernel: &KernelInfo, analysis: &Analysis<'_, '_>) -> Result<String, Refusal> {
    let builtins = &analysis.builtins;
    let along_one = builtins.axis != 0 && builtins.plane.is_none() && builtins.one_group;
    if !along_one || !pays(analysis) {
        return Err(Refusal::new("its groups do not read neighbouring elements"));
    }
    let mut emitter = Columns {
        kernel,
        analysis,
        reuse: Reuse::find(analysis, MOST_ELEMENTS)?,
        out: String::new(),
        pending: Vec::new(),
        kept: HashMap::new(),
        shared: HashSet::new(),
        phases: 0,
        loops: 0,
    };
    emitter.steps()?;
    Ok(emitter.finish())
}

struct Columns<'k, 'a, 's> {
    kernel: &'k KernelInfo,
    analysis: &'k Analysis<'a, 's>,
    reuse: Reuse,
    out: String,
    /// What the threads do in the phase that is open.
    pending: Vec<&'k Work<'a, 's>>,
    /// Where the value of a variable is kept from one phase to the next.
    kept: HashMap<&'s str, String>,
    /// Variables of which each group has a value in an array.
    shared: HashSet<&'s str>,
    phases: usize,
    loops: usize,
}

impl<'k, 'a, 's> Columns<'k, 'a, 's> {
    fn line(&mut self, text: &str) {
        self.out.push_str("  ");
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn steps(&mut self) -> Result<(), Refusal> {
        let steps = &self.analysis.steps;
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Varying(work) => self.varying(work)?,
                Step::Uniform(work) => self.uniform(at, work)?,
                Step::Once(work) => {
                    self.phase(at, &[])?;
                    let used = self.definitions(names(work.tokens), &HashSet::new())?;
                    self.line(
                        "MSL_PHASE for (uint msl_lane = 0; msl_lane < msl_wide; msl_lane++) {",
                    );
                    self.line(&format!(
                        "  constexpr uint msl_thread = 0; {used} {} }}",
                        work.code()
                    ));
                }
                Step::Barrier => _ = self.phase(at, &[])?,
                Step::Collective(collective) => self.collective(at, collective)?,
                Step::Loop(of) => self.gathering_loop(at, of)?,
                Step::Simd(_) => return Err(Refusal::new("an operation of SIMD groups")),
                Step::Guard { .. } => return Err(Refusal::new("a return of some groups")),
            }
        }
        self.phase(steps.len(), &[]).map(|_| ())
    }

    fn is_threadgroup(&self, name: &str) -> bool {
        self.analysis.threadgroup.iter().any(|t| t.name == name)
    }

    /// Opens or goes on with a phase. Threadgroup memory is there for each group only where each
    /// thread has one element.
    fn varying(&mut self, work: &'k Work<'a, 's>) -> Result<(), Refusal> {
        let uses = names(work.tokens).any(|n| self.is_threadgroup(n));
        let stores = work.effects.stored.iter().any(|n| self.is_threadgroup(n));
        if work.effects.opaque || (uses && !stores) {
            return Err(Refusal::new("threadgroup memory or calls"));
        }
        self.pending.push(work);
        Ok(())
    }

    /// Whether a variable that the threads share is arithmetic of indices, done anew where it is
    /// used.
    fn is_index(&self, name: &str) -> bool {
        self.analysis.variables.get(name).is_some_and(|v| {
            let known = |n: &str| {
                is_cheap_function(n)
                    || self.analysis.builtins.by_name.contains_key(n)
                    || self.is_constant(n)
                    || self.is_index(n)
            };
            let calls = v.work.tokens.iter().any(|t| t.is("metal") || t.is("c10"));
            let cheap_calls = !calls || v.work.tokens.iter().any(|t| t.is("floor_divide"));
            !v.varies
                && !v.work.tokens.is_empty()
                && v.work.effects.loaded.is_empty()
                && cheap_calls
                && names(v.work.tokens).all(known)
        })
    }

    fn is_constant(&self, name: &str) -> bool {
        self.kernel.parameters.iter().any(|p| p.name == name && p.is_constant_reference())
    }

    fn uniform(&mut self, at: usize, work: &'k Work<'a, 's>) -> Result<(), Refusal> {
        let Some(declaration) = work.declares else { return Ok(()) };
        let name = declaration.name;
        if names(work.tokens).any(|n| self.is_threadgroup(n)) {
            return Err(Refusal::new("threadgroup memory that all threads read"));
        }
        if self.is_index(name) {
            return Ok(());
        }
        if !work.effects.loaded.is_empty() {
            self.phase(at, &[])?;
        }
        let used = self.definitions(names(work.tokens), &HashSet::new())?;
        self.line(&format!(
            "auto msl_value_{name} = [&](const uint msl_lane) MSL_ALWAYS_INLINE {{ \
             constexpr uint msl_thread = 0; {used} {} return {name}; }};",
            work.code()
        ));
        self.line(&format!(
            "alignas(64) decltype(msl_value_{name}(0u)) msl_shared_{name}[msl::fission::columns];"
        ));
        self.line("MSL_PHASE for (uint msl_lane = 0; msl_lane < msl_wide; msl_lane++)");
        self.line(&format!("  msl_shared_{name}[msl_lane] = msl_value_{name}(msl_lane);"));
        self.shared.insert(name);
        Ok(())
    }

    /// Code that defines the variables among `used` for one thread of one group, except for `own`.
    fn definitions(
        &self,
        used: impl Iterator<Item = &'s str>,
        own: &HashSet<&'s str>,
    ) -> Result<String, Refusal> {
        let first = |name: &str| {
            if self.is_threadgroup(name) {
                return Some(format!(
                    "const msl::fission::Column<msl::fission::element<\
                     decltype(msl_memory_{name})>> {name}{{msl_memory_{name} + msl_lane}};"
                ));
            }
            let of = self.analysis.builtins.by_name.get(name)?;
            Some(builtin(self.kernel, name, of, "msl_at(msl_thread, msl_lane)"))
        };
        definitions(self.analysis, used, own, first, |name, variable| {
            if self.shared.contains(name) {
                return Definition::Kept(format!(
                    "const auto {name} = msl_shared_{name}[msl_lane];"
                ));
            }
            if variable.cheap || self.is_index(name) {
                return Definition::Again;
            }
            let at = "[msl_thread * msl::fission::columns + msl_lane]";
            let kept = self.kept.get(name).map(|place| format!("auto {name} = {place}{at};"));
            kept.map_or(Definition::Lost, Definition::Kept)
        })
    }

    /// As the phase of rows, for all threads of all groups.
    fn phase(&mut self, next: usize, extra: &[Tokens<'a, 's>]) -> Result<Vec<String>, Refusal> {
        let pending = std::mem::take(&mut self.pending);
        let parts = keepers(self.analysis, pending, next);
        if parts.pending.is_empty() && extra.is_empty() {
            return Ok(Vec::new());
        }
        let used = parts.used().chain(extra.iter().flat_map(|e| names(e)));
        let definitions = self.definitions(used, &parts.own)?;
        let values = parts.values(extra);
        let body: Vec<_> = parts.pending.iter().map(|w| w.code()).collect();
        let phase = self.phases;
        self.phases += 1;
        let memory = if phase == 0 { "0".to_owned() } else { format!("msl_end{}", phase - 1) };
        _ = writeln!(
            self.out,
            "  auto msl_phase{phase} = [&](const uint msl_thread, const uint msl_lane) \
             MSL_ALWAYS_INLINE {{\n    {definitions}\n    {}\n    \
             return msl::fission::pack({}); }};\n  \
             using msl_Kept{phase} = msl::fission::Kept<decltype(msl_phase{phase}(0u, 0u)), \
             msl_most * msl::fission::columns>;\n  \
             constexpr ulong msl_end{phase} = {memory} + sizeof(msl_Kept{phase}); \
             static_assert(msl_end{phase} <= msl::fission::elements_offset);\n  \
             msl_Kept{phase}& msl_kept{phase} = *(msl_Kept{phase}*)(msl_memory + {memory});\n  \
             for (uint msl_thread = 0; msl_thread < msl_count; msl_thread++)\n  \
             MSL_PHASE for (uint msl_lane = 0; msl_lane < msl_wide; msl_lane++)\n    \
             msl_kept{phase}.set(msl_thread * msl::fission::columns + msl_lane, \
             msl_phase{phase}(msl_thread, msl_lane));",
            body.join("\n    "),
            values.join(", ")
        );
        let array = |at: usize| format!("msl::fission::array<{at}>(msl_kept{phase})");
        for (at, name) in parts.keep.iter().enumerate() {
            self.kept.insert(name, array(at));
        }
        Ok((parts.keep.len()..values.len()).map(array).collect())
    }

    fn collective(&mut self, at: usize, collective: &Collective<'a, 's>) -> Result<(), Refusal> {
        let name = collective.result.name;
        // The last memory of an operation is that of its result: a place has one for the values too.
        let memory = collective.memory.last().copied().unwrap_or_default();
        let operator = collective.kind.operator();
        let element = format!("msl::fission::element<decltype({memory})>");
        let used = collective.values.iter().flat_map(|v| names(v));
        let mut gathered = used.chain([memory]).filter(|n| self.analysis.gathered.contains(n));
        let gathered = if collective.kind.is_place() { gathered.last() } else { gathered.next() };
        let call = match (collective.kind, gathered) {
            (Kind::WelfordCombine, None) => return Err(Refusal::new("sets of numbers")),
            (Kind::WelfordCombine, Some(of)) => format!("together(msl_of_{of}, {{}})"),
            (_, Some(of)) => format!("together<{element}>(msl_all_{of}, {{}})"),
            (Kind::Welford, None) => {
                self.phase(at, &[])?;
                format!("welford_columns(msl_memory_{memory}, msl_count, msl_wide, {{}})")
            }
            (Kind::ArgMax | Kind::ArgMin, None) => {
                let arrays = self.phase(at, &collective.values)?;
                format!(
                    "places_of_columns<msl::fission::{operator}>({}, msl_count, msl_wide, {{}})",
                    arrays.join(", ")
                )
            }
            (_, None) => {
                let value = without_cast(self.analysis, collective.values[0], memory);
                let array = self.operand(at, value)?;
                format!(
                    "reduce_columns<msl::fission::{operator}, {element}>({array}, msl_count, \
                     msl_wide, {{}})"
                )
            }
        };
        let ty = if matches!(collective.kind, Kind::Welford | Kind::WelfordCombine) {
            "metal::float3".to_owned()
        } else {
            element
        };
        if !collective.result.ty.iter().any(|t| t.is("auto")) {
            return Err(Refusal::new("a result of another type"));
        }
        self.line(&format!("alignas(64) {ty} msl_shared_{name}[msl::fission::columns];"));
        let call = call.replace("{}", &format!("msl_shared_{name}"));
        self.line(&format!("msl::fission::{call};"));
        self.shared.insert(name);
        Ok(())
    }

    /// The array of the values of an operand of the operation at step `at`.
    fn operand(&mut self, at: usize, value: Tokens<'a, 's>) -> Result<String, Refusal> {
        let variables = &self.analysis.variables;
        let own = match value {
            [v] if variables.get(v.text).is_some_and(|v| v.varies && !v.cheap) => {
                self.phase(at, &[])?;
                self.kept.get(v.text).cloned()
            }
            _ => self.phase(at, &[value])?.pop(),
        };
        own.ok_or_else(|| Refusal::new("a value that is not computed"))
    }

    fn declaration(&self, name: &str) -> Result<Declaration<'a, 's>, Refusal> {
        self.analysis
            .declaration(name)
            .ok_or_else(|| Refusal::new(format!("{name} without a type")))
    }

    fn gathering_loop(&mut self, at: usize, of: &'k Loop<'a, 's>) -> Result<(), Refusal> {
        self.phase(at, &[])?;
        let number = self.loops;
        self.loops += 1;
        let (mut lanes, mut fold, mut counts) = (String::new(), String::new(), String::new());
        for gathered in &of.gathered {
            match gathered {
                Gathered::Value { name, kind, .. } => {
                    let d = self.declaration(name)?;
                    let (ty, init) = (text(d.ty), text(d.init));
                    self.line(&format!(
                        "alignas(64) {ty} msl_all_{name}[msl::fission::columns], \
                         msl_part_{name}[msl::fission::columns]; msl::fission::fill(\
                         msl_all_{name}, {ty}({init})); msl::fission::fill(msl_part_{name}, \
                         {ty}({init}));"
                    ));
                    _ = write!(lanes, "auto& {name} = msl_part_{name}[msl_lane]; ");
                    _ = write!(
                        fold,
                        "msl::fission::fold<msl::fission::{}>(msl_all_{name}, msl_part_{name}, \
                         {ty}({init})); ",
                        kind.operator()
                    );
                }
                Gathered::Welford { memory, of_numbers: true, .. } => {
                    self.line(&format!("msl::fission::ColumnsOfNumbers msl_of_{memory};"));
                    _ = write!(counts, "const float msl_part_{memory} = msl_of_{memory}.next(); ");
                }
                Gathered::Welford { .. } => return Err(Refusal::new("sets of numbers")),
                Gathered::Place { value, index, .. } => {
                    for name in [value, index] {
                        let d = self.declaration(name)?;
                        let ty = if name == index { index_type(of) } else { text(d.ty) };
                        self.line(&format!(
                            "alignas(64) {ty} msl_all_{name}[msl::fission::columns]; \
                             msl::fission::fill(msl_all_{name}, {ty}({}));",
                            text(d.init)
                        ));
                        _ = write!(lanes, "auto& {name} = msl_all_{name}[msl_lane]; ");
                    }
                }
            }
        }
        self.write_loop(of, number, &lanes, &fold, &counts)
    }

    fn write_loop(
        &mut self,
        of: &'k Loop<'a, 's>,
        number: usize,
        lanes: &str,
        fold: &str,
        counts: &str,
    ) -> Result<(), Refusal> {
        let mut own: HashSet<&str> = of.effects.declared.iter().copied().collect();
        own.extend(of.gathered.iter().flat_map(Gathered::names));
        own.insert(of.linear.name);
        let used = of.body.iter().flat_map(|s| names(s));
        let definitions = self.definitions(used, &own)?;
        let (ty, linear) = (index_type(of), of.linear.name);
        _ = writeln!(
            self.out,
            "  for (long msl_block = 0; msl_block < msl_total{number}; \
             msl_block += msl::fission::rows) {{\n  \
             const long msl_end = msl_block + msl::fission::rows < msl_total{number} \
             ? msl_block + msl::fission::rows : msl_total{number};\n  \
             for (long msl_row = msl_block; msl_row < msl_end; msl_row++) {{ {counts}\n  \
             MSL_PHASE for (uint msl_lane = 0; msl_lane < msl_wide; msl_lane++) {{\n    \
             constexpr uint msl_thread = 0; {definitions}\n    \
             const {ty} {linear} = ({ty})msl_row; {lanes}"
        );
        let element = format!("{linear} * msl::fission::columns + msl_lane");
        for (at, statement) in of.body.iter().enumerate() {
            let code = match self.reuse.takes.get(&(number, at)) {
                Some(array) => taken(statement, *array, &element),
                None => column_statement(of, at, statement),
            };
            _ = writeln!(self.out, "    {code}");
            if let Some(array) = self.reuse.keeps.get(&(number, at)) {
                _ = writeln!(self.out, "    {}", kept(statement, *array, &element));
            }
        }
        _ = writeln!(self.out, "  }} }} {fold} }}");
        Ok(())
    }

    fn finish(self) -> String {
        let analysis = self.analysis;
        let most = match analysis.size {
            Some(size) => format!("constexpr uint msl_count = {size}, msl_most = {size};"),
            None => "const uint msl_count = msl_size; constexpr uint msl_most = 1024;".to_owned(),
        };
        let mut out = format!(
            "template <class msl_Wide>\nstatic MSL_ALWAYS_INLINE bool msl_columns(const msl::Launch* msl_launch, \
             char* msl_memory, const msl::uint3 msl_where, const uint msl_size, \
             const msl_Wide msl_columns_wide) {{\n  const uint msl_wide = msl_columns_wide;\n  {most}\n  \
             const auto msl_at = [&](const uint msl_number, const uint msl_lane) \
             MSL_ALWAYS_INLINE {{ return msl::fission::column_thread<{}>(msl_launch, msl_where, \
             msl_count, msl_number, msl_lane); }};\n  \
             const msl::Thread msl_first = msl_at(0, 0);\n",
            analysis.builtins.axis
        );
        out.push_str(&buffers(self.kernel));
        out.push_str(&checks(self.kernel, analysis));
        for variable in &analysis.threadgroup {
            let (ty, name) = (text(variable.ty), variable.name);
            let used = analysis.steps.iter().any(|s| match s {
                Step::Varying(work) => work.effects.stored.contains(name),
                _ => false,
            });
            // Of the others only the type is used.
            let dimensions = text(variable.dimensions);
            _ = writeln!(out, "  {ty} {name}{dimensions};");
            if used {
                _ = writeln!(
                    out,
                    "  auto& msl_memory_{name} = msl::fission::columns_of<{ty}, {name_at}>(\
                     msl_memory);",
                    name_at = analysis.threadgroup.iter().position(|t| t.name == name).unwrap_or(0)
                );
            }
        }
        out.push_str(&self.out);
        out.push_str("  return true;\n}\n");
        out
    }
}

/// A statement of a loop's body; what gathers something, in the lane of its group.
fn column_statement(of: &Loop<'_, '_>, at: usize, statement: Tokens<'_, '_>) -> String {
    match of.gathered.iter().find(|g| g.at() == at) {
        None => text(statement),
        Some(Gathered::Welford { memory, operand, .. }) => {
            format!("msl_of_{memory}.add(msl_lane, (float)({}), msl_part_{memory});", text(operand))
        }
        Some(gathered) => gathering_statement(gathered, of.linear.name, statement),
    }
}
