//! Loops over the elements that the threads of a group share, as C++: block by block, with a lane
//! for each element of a block.

use std::fmt::Write as _;

use super::super::kernels::KernelInfo;
use super::super::parameters::ParameterKind;
use super::collective::{Collective, Kind};
use super::loops::{Apart, Gathered, Loop, Order};
use super::reuse::Reuse;
use super::statement::{Declaration, Statement, Tokens, parse, text};
use super::steps::Analysis;

/// Code for the start of the group: how many elements loop `number` goes through.
pub(super) fn span(of: &Loop<'_, '_>, number: usize) -> String {
    let function = match of.order {
        Order::Blocked => "blocked",
        Order::Strided => "strided",
    };
    let (trips, bound) = (text(of.trips), of.bound.map_or("msl::fission::unbounded".into(), text));
    format!(
        "  const long msl_total{number} = msl::fission::{function}(msl::fission::trips({trips}), \
         {bound}, msl_count);\n  if (msl_total{number} < 0) return false;\n  \
         const uint msl_width{number} = msl::fission::width(msl_total{number});\n"
    )
}

/// Code for the start of the group: fibers if two buffers overlap that a loop must not mix up.
pub(super) fn check_apart(kernel: &KernelInfo, apart: &Apart<'_>) -> String {
    let index_and_type = |name: &str| {
        let parameter = kernel.parameters.iter().find(|p| p.name == name)?;
        match &parameter.kind {
            ParameterKind::Buffer { index, ty, .. } => Some((*index, ty.clone())),
            _ => None,
        }
    };
    let (Some((a, ty)), Some((b, other))) =
        (index_and_type(apart.stored), index_and_type(apart.other))
    else {
        return "  return false;\n".to_owned();
    };
    let may_be_same = apart.may_be_same && ty == other;
    format!("  if (msl::fission::overlap(msl_launch, {a}, {b}, {may_be_same})) return false;\n")
}

/// Loop `number`, over the elements of one group.
pub(super) fn rows(
    analysis: &Analysis<'_, '_>,
    reuse: &Reuse,
    of: &Loop<'_, '_>,
    number: usize,
) -> String {
    let mut out = String::new();
    let mut lanes = String::new();
    let held = is_held(analysis, of);
    let mut starts = String::new();
    for gathered in &of.gathered {
        if held {
            out.push_str(&start_held(analysis, gathered, &mut starts));
            continue;
        }
        out.push_str(&start(analysis, of, gathered));
        for name in held_in_lanes(gathered) {
            _ = write!(lanes, "auto& {name} = msl_lanes_{name}[msl_lane]; ");
        }
    }
    let (ty, linear) = (index_type(of), of.linear.name);
    let block = if held { "msl::fission::elements" } else { "msl::fission::lanes" };
    _ = writeln!(
        out,
        "  for (long msl_block = 0; msl_block < msl_total{number}; \
         msl_block += {block}) {{\n  \
         const uint msl_filled = msl::fission::filled<{block}>(msl_total{number} - msl_block);\n  \
         {starts}\n  MSL_PHASE for (uint msl_lane = 0; msl_lane < msl_filled; msl_lane++) {{\n    \
         const {ty} {linear} = ({ty})((int)msl_block + (int)msl_lane); {lanes}"
    );
    for (at, statement) in of.body.iter().enumerate() {
        let code = match reuse.takes.get(&(number, at)) {
            Some(array) => taken(statement, *array, of.linear.name),
            None => body_statement(of, at, statement, held),
        };
        _ = writeln!(out, "    {code}");
        if let Some(array) = reuse.keeps.get(&(number, at)) {
            _ = writeln!(out, "    {}", kept(statement, *array, of.linear.name));
        }
    }
    out.push_str("  }\n");
    for gathered in &of.gathered {
        if let Gathered::Welford { memory, of_numbers: true, .. } = gathered {
            _ = writeln!(out, "  msl_of_{memory}.add(msl_filled);");
        }
        if held {
            out.push_str(&finish_held(gathered));
        }
    }
    out.push_str("  }\n");
    out
}

/// The type of a loop's linear index.
pub(super) fn index_type(of: &Loop<'_, '_>) -> String {
    let ty = text(of.linear.ty);
    if ty == "auto" { "uint".to_owned() } else { ty }
}

/// A statement of the body; what gathers something, in its lane.
fn body_statement(of: &Loop<'_, '_>, at: usize, statement: Tokens<'_, '_>, held: bool) -> String {
    match of.gathered.iter().find(|g| g.at() == at) {
        None => text(statement),
        Some(Gathered::Value { name, operand, .. }) if held => {
            format!("{name}.take({});", text(operand))
        }
        Some(Gathered::Welford { memory, operand, of_numbers: true, .. }) => {
            format!("msl_of_{memory}.values[msl_lane] = (float)({});", text(operand))
        }
        Some(Gathered::Welford { memory, operand, .. }) => format!(
            "msl_of_{memory}.sets[msl_lane] = msl::welford_pair(\
             msl_of_{memory}.sets[msl_lane], {});",
            text(operand)
        ),
        Some(gathered) => gathering_statement(gathered, of.linear.name, statement),
    }
}

/// The statement that gathers a number: the greatest and the least by our own operators, since
/// PyTorch's go from bfloat to float and back for every element.
pub(super) fn gathering_statement(
    gathered: &Gathered<'_, '_>,
    linear: &str,
    statement: Tokens<'_, '_>,
) -> String {
    match gathered {
        Gathered::Value { name, kind: kind @ (Kind::Max | Kind::Min), operand, .. } => {
            let (operator, operand) = (kind.operator(), text(operand));
            let ty = format!("metal::decay_t<decltype({name})>");
            format!("{name} = msl::fission::{operator}::apply<{ty}>({name}, {ty}({operand}));")
        }
        Gathered::Value { name, operand, .. } => format!(
            "static_assert(msl::fission::in_any_order<decltype({name}), decltype({})>); {}",
            text(operand),
            text(statement)
        ),
        Gathered::Place { value, index, kind, operand, .. } => {
            let (operator, operand) = (kind.operator(), text(operand));
            let ty = |name: &str| format!("metal::decay_t<decltype({name})>");
            format!(
                "msl::fission::keep_first<msl::fission::{operator}>({value}, {index}, \
                 {}({operand}), {}({linear}));",
                ty(value),
                ty(index)
            )
        }
        _ => text(statement),
    }
}

/// The declared name and its value in a statement that is one declaration.
fn declared<'a, 's>(statement: Tokens<'a, 's>) -> (&'s str, Tokens<'a, 's>) {
    match parse(statement) {
        Ok(Statement::Declarations(all)) => (all[0].name, all[0].init),
        _ => ("", &[]),
    }
}

/// Keeps the value that a statement has declared, in an element of an array.
pub(super) fn kept(statement: Tokens<'_, '_>, array: usize, element: &str) -> String {
    let (name, _) = declared(statement);
    format!(
        "msl::fission::values_of_elements<decltype({name})>(msl_memory, {array})[{element}] = {name};"
    )
}

/// The same declaration by the value that was kept.
pub(super) fn taken(statement: Tokens<'_, '_>, array: usize, element: &str) -> String {
    let (name, value) = declared(statement);
    format!(
        "auto {name} = msl::fission::values_of_elements<decltype({})>(msl_memory, {array})[{element}];",
        text(value)
    )
}

/// Whether all that a loop gathers are numbers that the compiler can gather in registers, in an
/// order of its own, without lanes in memory.
fn is_held(analysis: &Analysis<'_, '_>, of: &Loop<'_, '_>) -> bool {
    of.gathered.iter().all(|gathered| match gathered {
        Gathered::Value { name, kind, .. } => {
            analysis.declaration(name).is_some_and(|d| may_be_held(*kind, &text(d.ty)))
        }
        _ => false,
    })
}

/// Whether numbers of this type can be gathered in a register. Sums of half and bfloat are rounded,
/// so that their order matters.
pub(super) fn may_be_held(kind: Kind, ty: &str) -> bool {
    match kind {
        Kind::Sum | Kind::Product => matches!(ty, "float" | "int" | "uint" | "long" | "ulong"),
        Kind::Max | Kind::Min | Kind::ArgMax | Kind::ArgMin => {
            matches!(ty, "float" | "half" | "bfloat" | "int" | "uint" | "long" | "ulong")
        }
        Kind::Welford | Kind::WelfordCombine => false,
    }
}

/// The type in `reduction.h` that gathers numbers of the type `ty`.
pub(super) fn held(kind: Kind, ty: &str) -> String {
    format!("msl::fission::Held<msl::fission::{}, {ty}>", kind.operator())
}

/// Declares what is gathered of all blocks; what declares that of one goes to `starts`.
fn start_held(
    analysis: &Analysis<'_, '_>,
    gathered: &Gathered<'_, '_>,
    starts: &mut String,
) -> String {
    let Gathered::Value { name, kind, .. } = gathered else { return String::new() };
    let Some(declaration) = analysis.declaration(name) else { return String::new() };
    let (ty, init) = (text(declaration.ty), text(declaration.init));
    let held = held(*kind, &ty);
    _ = write!(starts, "{held} {name}{{{ty}({init})}}; ");
    format!("  {held} msl_held_{name}{{{ty}({init})}};\n")
}

/// Adds what was gathered of a block.
fn finish_held(gathered: &Gathered<'_, '_>) -> String {
    let Gathered::Value { name, .. } = gathered else { return String::new() };
    format!("  msl_held_{name}.merge({name});\n")
}

fn held_in_lanes<'s>(gathered: &Gathered<'_, 's>) -> Vec<&'s str> {
    match gathered {
        Gathered::Welford { .. } => Vec::new(),
        _ => gathered.names(),
    }
}

/// Declares the lanes, with nothing gathered.
fn start(analysis: &Analysis<'_, '_>, of: &Loop<'_, '_>, gathered: &Gathered<'_, '_>) -> String {
    let mut out = String::new();
    if let Gathered::Welford { memory, of_numbers, .. } = gathered {
        let ty = if *of_numbers { "OfNumbers" } else { "OfSets" };
        _ = writeln!(out, "  msl::fission::{ty} msl_of_{memory};");
    }
    for name in held_in_lanes(gathered) {
        let declaration = analysis.declaration(name);
        let Some(Declaration { ty, init, .. }) = declaration else { continue };
        // An index needs no more bits than the linear index has: narrow lanes are faster.
        let is_index = matches!(gathered, Gathered::Place { index, .. } if *index == name);
        let (ty, init) = (if is_index { index_type(of) } else { text(ty) }, text(init));
        _ = writeln!(
            out,
            "  alignas(64) {ty} msl_lanes_{name}[msl::fission::lanes]; \
             msl::fission::fill(msl_lanes_{name}, {ty}({init}));"
        );
    }
    out
}

/// The value that brings together what loop `number` has gathered.
pub(super) fn together(
    analysis: &Analysis<'_, '_>,
    collective: &Collective<'_, '_>,
    number: usize,
) -> String {
    let memory = collective.memory.first().copied().unwrap_or_default();
    let operator = collective.kind.operator();
    let element = format!("msl::fission::element<decltype({memory})>");
    let mut all = analysis.loops().flat_map(|of| &of.gathered);
    let held = all.find(|g| {
        let names = g.names();
        names.contains(&memory)
            || collective.values.iter().any(|v| v.iter().any(|t| names.contains(&t.text)))
    });
    if let Some(Gathered::Value { name, .. }) = held
        && analysis.loops().nth(number).is_some_and(|of| is_held(analysis, of))
    {
        return format!("{element}(msl_held_{name}.value())");
    }
    match (collective.kind, held) {
        (Kind::Welford | Kind::WelfordCombine, _) | (_, None) => {
            format!("msl::fission::together(msl_of_{memory}, msl_width{number})")
        }
        (Kind::ArgMax | Kind::ArgMin, Some(held)) => {
            let names = held.names();
            format!(
                "msl::fission::least_place_of<msl::fission::{operator}, {element}, \
                 msl::fission::element<decltype({})>>(msl_lanes_{}, msl_lanes_{}, \
                 msl_width{number})",
                collective.memory[1], names[0], names[1]
            )
        }
        (_, Some(held)) => format!(
            "msl::fission::reduce<msl::fission::{operator}, {element}>(msl_lanes_{}, msl_width{number})",
            held.names()[0]
        ),
    }
}
