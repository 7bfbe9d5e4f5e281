//! The parameters of a kernel that the launch fills in, and which of them differ between the
//! threads of a group.

use std::collections::HashMap;

use super::super::kernels::KernelInfo;
use super::super::lex::{Token, integer, split};
use super::super::parameters::ParameterKind;
use super::Refusal;
use super::statement::{Declaration, Tokens, reads};

/// One parameter that the launch fills in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Builtin {
    /// Its place among the parameters.
    pub place: usize,
    /// Its attribute.
    pub attribute: String,
    /// Whether its type is a vector.
    pub is_vector: bool,
}

impl Builtin {
    /// Whether it is a position, of which each component is a number of its own.
    fn is_position(&self) -> bool {
        matches!(&*self.attribute, "thread_position_in_grid" | "thread_position_in_threadgroup")
    }

    /// Whether all threads of a group have the same.
    fn is_uniform(&self) -> bool {
        let per_thread = self.is_position()
            || self.attribute.ends_with("index_in_threadgroup")
            || self.attribute.ends_with("index_in_simdgroup")
            || self.attribute.ends_with("index_in_quadgroup");
        !per_thread
    }
}

/// Threads along two axes: those of a reduction over two ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plane {
    /// Threads along the first axis.
    pub width: u32,
    /// The number of a thread, as the code spells it: `r0_index * 1 + r1_index * width`.
    number: [String; 7],
}

impl Plane {
    /// That of threads whose places along the two axes are called `first` and `second`, by the
    /// numbers of threads in `body`.
    fn of(first: &str, second: &str, body: Tokens<'_, '_>) -> Option<Plane> {
        let spelled = [first, "*", "1", "+", second, "*"];
        let at = body.windows(7).position(|w| reads(&w[..6], &spelled))?;
        let width = integer(body[at + 6].text).filter(|width| *width > 0)?;
        Some(Plane { width, number: std::array::from_fn(|i| body[at + i].text.to_owned()) })
    }
}

/// All of them, by name, and the axis along which the threads of a group lie.
#[derive(Debug)]
pub(super) struct Builtins {
    pub by_name: HashMap<String, Builtin>,
    /// 0, 1 or 2 for x, y or z.
    pub axis: usize,
    /// Where the threads lie along the next axis, too.
    pub plane: Option<Plane>,
    /// Whether the number of a thread may be taken from its position in the grid, where it is one
    /// only if all threads along the axis are one group.
    pub one_group: bool,
}

impl Builtins {
    /// Those of a kernel whose parameters are the tokens `parameters`; the axis is not yet known.
    pub(super) fn new(kernel: &KernelInfo, parameters: &[Token<'_>]) -> Result<Builtins, Refusal> {
        let ranges = split(parameters, 0..parameters.len());
        if ranges.len() != kernel.parameters.len() {
            return Err(Refusal::new("parameters that are not understood"));
        }
        let mut by_name = HashMap::new();
        for (place, (parameter, range)) in kernel.parameters.iter().zip(ranges).enumerate() {
            let tokens = &parameters[range];
            if parameter.name.is_empty() || !tokens.last().is_some_and(|t| t.is(&parameter.name)) {
                return Err(Refusal::new("a parameter that is not understood"));
            }
            match &parameter.kind {
                ParameterKind::Threadgroup { .. } => {
                    return Err(Refusal::new("threadgroup memory as an argument"));
                }
                ParameterKind::Buffer { .. } => {}
                ParameterKind::Builtin(attribute) => {
                    let is_vector = tokens[..tokens.len() - 1]
                        .iter()
                        .any(|t| t.is_ident() && (t.text.ends_with(['2', '3']) || t.is("vec")));
                    let builtin = Builtin { place, attribute: attribute.clone(), is_vector };
                    by_name.insert(parameter.name.clone(), builtin);
                }
            }
        }
        let one_group = by_name
            .values()
            .any(|b: &Builtin| b.is_vector && b.attribute == "thread_position_in_grid");
        Ok(Builtins { by_name, axis: 0, plane: None, one_group })
    }

    /// Finds the axis: that of the declarations of reduction indices (`r0_index = pos.y`), else x
    /// if all positions are numbers; and the plane, if there are indices of two axes.
    pub(super) fn find_axis(
        &mut self,
        declarations: &[Declaration<'_, '_>],
        body: Tokens<'_, '_>,
    ) -> Result<(), Refusal> {
        let mut found: Vec<(usize, &str)> = Vec::new();
        for declaration in declarations.iter().filter(|d| is_reduction_index(d.name)) {
            let Some(component) = self.component(declaration.init) else { continue };
            if found.iter().all(|(known, _)| *known != component) {
                found.push((component, declaration.name));
            }
        }
        found.sort_unstable();
        let mut positions = self.by_name.values().filter(|b| b.is_position());
        self.axis = match found[..] {
            [(axis, _)] => axis,
            [(axis, first), (next, second)] if next == axis + 1 => {
                self.plane = Plane::of(first, second, body);
                if self.plane.is_none() {
                    return Err(Refusal::new(
                        "two reduction ranges without a number of the thread",
                    ));
                }
                axis
            }
            [] if positions.all(|b| !b.is_vector) => 0,
            [] => return Err(Refusal::new("no axis along which its threads lie")),
            _ => return Err(Refusal::new("reduction ranges that do not lie side by side")),
        };
        Ok(())
    }

    /// The component that tokens like `pos.y` name.
    fn component(&self, tokens: Tokens<'_, '_>) -> Option<usize> {
        let [name, dot, component] = tokens else { return None };
        let builtin = self.by_name.get(name.text)?;
        if builtin.is_position() && dot.is(".") { component_index(component.text) } else { None }
    }

    /// Whether an expression is the number of the thread within its group.
    pub(super) fn is_thread_number(&self, tokens: Tokens<'_, '_>) -> bool {
        match tokens {
            [name] => self.by_name.get(name.text).is_some_and(|b| {
                let is_number = matches!(
                    &*b.attribute,
                    "thread_position_in_threadgroup" | "thread_index_in_threadgroup"
                );
                is_number && !b.is_vector
            }),
            _ => match &self.plane {
                Some(plane) => reads(tokens, &plane.number.each_ref().map(|t| t.as_str())),
                None => self.component(tokens) == Some(self.axis),
            },
        }
    }

    /// Whether the name at `at` differs between the threads of a group.
    pub(super) fn varies(&self, tokens: Tokens<'_, '_>, at: usize) -> bool {
        let Some(builtin) = self.by_name.get(tokens[at].text) else { return false };
        if builtin.is_uniform() {
            return false;
        }
        let component = match tokens.get(at + 1..at + 3) {
            Some([dot, component]) if dot.is(".") => component_index(component.text),
            _ => None,
        };
        let lies_along = |c: usize| c == self.axis || (self.plane.is_some() && c == self.axis + 1);
        !(builtin.is_vector && builtin.is_position() && component.is_some_and(|c| !lies_along(c)))
    }
}

fn component_index(name: &str) -> Option<usize> {
    ["x", "y", "z"].iter().position(|c| *c == name)
}

/// Whether a name is one that PyTorch's generator gives the index of a reduction: `r0_index`.
fn is_reduction_index(name: &str) -> bool {
    let digits = name.strip_prefix('r').and_then(|rest| rest.strip_suffix("_index"));
    digits.is_some_and(|d| d.bytes().all(|b| b.is_ascii_digit()))
}
