//! Operations of a group and of its SIMD groups, as C++ between the phases that compute their operands.

use std::collections::HashSet;

use super::super::lex::Kind as LexKind;
use super::Refusal;
use super::collective::{Collective, Kind};
use super::emit::{Emitter, without_cast};
use super::gather;
use super::simd::Simd;
use super::statement::{Tokens, names, text};

/// What the threads of a phase gather in a register.
pub(super) struct Held<'a, 's> {
    /// Its type in `reduction.h`.
    pub ty: String,
    /// That of the numbers.
    pub element: String,
    pub value: Tokens<'a, 's>,
}

impl<'a, 's> Emitter<'_, 'a, 's> {
    /// What an operation gathers, if the compiler can do that while the values are computed.
    fn held(&self, collective: &Collective<'a, 's>) -> Option<Held<'a, 's>> {
        let memory = *collective.memory.first()?;
        let variable = self.analysis.threadgroup.iter().find(|t| t.name == memory)?;
        let value = *collective.values.first()?;
        let element = text(variable.ty);
        gather::may_be_held(collective.kind, &element).then(|| Held {
            ty: gather::held(collective.kind, &element),
            value: without_cast(self.analysis, value, memory),
            element,
        })
    }

    pub(super) fn collective(
        &mut self,
        at: usize,
        collective: &Collective<'a, 's>,
    ) -> Result<(), Refusal> {
        let value = self.result(at, collective)?;
        self.line(&format!("{} {} = {value};", text(collective.result.ty), collective.result.name));
        Ok(())
    }

    /// The value of a group-wide operation, behind the phases that it takes.
    fn result(&mut self, at: usize, collective: &Collective<'a, 's>) -> Result<String, Refusal> {
        let memory = collective.memory.first().copied().unwrap_or_default();
        let values = collective.values.iter().flat_map(|v| names(v));
        let mut used = collective.memory.iter().copied().chain(values);
        if let Some(number) = used.find_map(|n| self.lanes.get(n)) {
            return Ok(gather::together(self.analysis, collective, *number));
        }
        if let Some(held) = self.held(collective).filter(|_| !collective.kind.is_place()) {
            let phase = self.phases;
            // What only this operation uses need not be kept.
            self.gathering_phase(at + 1, &[], Some(held))?;
            return Ok(format!("msl_held{phase}.value()"));
        }
        let operator = collective.kind.operator();
        let element = format!("msl::fission::element<decltype({memory})>");
        Ok(match collective.kind {
            Kind::Welford | Kind::WelfordCombine => {
                self.phase(at, &[])?;
                let together = if collective.kind == Kind::Welford { "" } else { "_combine" };
                format!("msl::fission::welford{together}({memory}, msl_count)")
            }
            Kind::ArgMax | Kind::ArgMin => self.place(at, collective, &element)?,
            _ => {
                let value = without_cast(self.analysis, collective.values[0], memory);
                let arrays = self.operands(at, &[value], None)?;
                format!(
                    "msl::fission::reduce<msl::fission::{operator}, {element}>({}, msl_count)",
                    arrays[0]
                )
            }
        })
    }

    /// The place of the greatest or least value: that value first, and then where it is.
    fn place(
        &mut self,
        at: usize,
        collective: &Collective<'a, 's>,
        element: &str,
    ) -> Result<String, Refusal> {
        let [value, place] = collective.values[..] else {
            return Err(Refusal::new("a place without a value"));
        };
        let (operator, phase) = (collective.kind.operator(), self.phases);
        let held = self.held(collective);
        let is_held = held.is_some();
        // A place is found among values of the very type of the operation.
        let array = self.operands(at, &[value], held)?.remove(0);
        let best = if is_held {
            format!("msl_held{phase}.value()")
        } else {
            format!("msl::fission::reduce<msl::fission::{operator}, {element}>({array}, msl_count)")
        };
        let used = self.definitions(names(place), &HashSet::new())?;
        Ok(format!(
            "msl::fission::place_of<{element}>({array}, msl_count, {best}, \
             [&](const uint msl_thread) MSL_ALWAYS_INLINE {{ {used} return {}; }})",
            text(place)
        ))
    }

    /// The arrays of the values of operands of step `at`, behind the phase that computes them and
    /// gathers `held`.
    fn operands(
        &mut self,
        at: usize,
        values: &[Tokens<'a, 's>],
        held: Option<Held<'a, 's>>,
    ) -> Result<Vec<String>, Refusal> {
        let is_kept = |tokens: &Tokens<'a, 's>| {
            matches!(tokens, [name] if self
                .analysis
                .variables
                .get(name.text)
                .is_some_and(|v| v.varies && !v.cheap))
        };
        let extra: Vec<_> = values.iter().copied().filter(|v| !is_kept(v)).collect();
        let mut made = self.gathering_phase(at, &extra, held)?.into_iter();
        let mut arrays = Vec::new();
        for value in values {
            let array = match value {
                [name] if is_kept(value) => self.kept.get(name.text).cloned(),
                _ => made.next(),
            };
            let lost = || Refusal::new(format!("{} is not computed", text(value)));
            arrays.push(array.ok_or_else(lost)?);
        }
        Ok(arrays)
    }

    /// An operation of the SIMD groups, on the values of all threads.
    pub(super) fn simd(&mut self, at: usize, simd: &Simd<'a, 's>) -> Result<(), Refusal> {
        let literal = simd.argument.and_then(|argument| match argument {
            [number] if number.kind == LexKind::Number => Some(number.text.to_owned()),
            _ => None,
        });
        let own = if literal.is_some() { 1 } else { 2 };
        let operands: Vec<_> = simd.operands().take(own).collect();
        let arrays = self.operands(at, &operands, None)?;
        let (phase, name) = (self.phases, simd.result.name);
        self.line(&format!(
            "auto msl_typed{phase} = [&](const auto& msl_value) MSL_ALWAYS_INLINE {{ \
             {} {name} = msl_value; return {name}; }};",
            text(simd.result.ty)
        ));
        let value = match simd.kind.is_vote {
            true => "bool".to_owned(),
            false => format!("msl::fission::element<decltype({})>", arrays[0]),
        };
        self.keep(&format!(
            "msl::fission::Pack<decltype(msl_typed{phase}(metal::declval<{value}>()))>"
        ));
        let computed = arrays.get(1).map(|array| format!("{array}[msl_thread]"));
        let argument = literal.or(computed).unwrap_or_else(|| "0".to_owned());
        let kept = format!("msl::fission::array<0>(msl_kept{phase})");
        self.line(&format!(
            "msl::fission::of_simdgroups<{}, {value}>({}, msl_count, \
             [&](const uint msl_thread) MSL_ALWAYS_INLINE {{ return (ushort)({argument}); }}, \
             msl_typed{phase}, {kept});",
            simd.kind.ty, arrays[0]
        ));
        self.kept.insert(name, kept);
        Ok(())
    }
}
