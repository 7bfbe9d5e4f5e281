//! The parameters of a kernel that the launch fills in, and which of them differ between the
//! threads of a group.

use std::collections::HashMap;

use super::super::kernels::KernelInfo;
use super::super::lex::{Token, split};
use super::super::parameters::ParameterKind;
use super::Refusal;
use super::statement::{Declaration, Tokens};

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

/// All of them, by name, and the axis along which the threads of a group lie.
#[derive(Debug)]
pub(super) struct Builtins {
    pub by_name: HashMap<String, Builtin>,
    /// 0, 1 or 2 for x, y or z.
    pub axis: usize,
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
        Ok(Builtins { by_name, axis: 0, one_group })
    }

    /// Finds the axis: that of the declarations of reduction indices (`r0_index = pos.y`), else x
    /// if all positions are numbers.
    pub(super) fn find_axis(
        &mut self,
        declarations: &[Declaration<'_, '_>],
    ) -> Result<(), Refusal> {
        let mut axis = None;
        for declaration in declarations.iter().filter(|d| is_reduction_index(d.name)) {
            let Some(component) = self.component(declaration.init) else { continue };
            if axis.is_some_and(|axis| axis != component) {
                return Err(Refusal::new("two reduction ranges"));
            }
            axis = Some(component);
        }
        let mut positions = self.by_name.values().filter(|b| b.is_position());
        self.axis = match axis {
            Some(axis) => axis,
            None if positions.all(|b| !b.is_vector) => 0,
            None => return Err(Refusal::new("no axis along which its threads lie")),
        };
        Ok(())
    }

    /// The component that tokens like `pos.y` name.
    fn component(&self, tokens: Tokens<'_, '_>) -> Option<usize> {
        let [name, dot, component] = tokens else { return None };
        let builtin = self.by_name.get(name.text)?;
        if builtin.is_position() && dot.is(".") { component_index(component.text) } else { None }
    }

    /// Whether an expression is the number of the thread along the axis, within its group.
    pub(super) fn is_thread_number(&self, tokens: Tokens<'_, '_>) -> bool {
        match tokens {
            [name] => self.by_name.get(name.text).is_some_and(|b| {
                let is_number = matches!(
                    &*b.attribute,
                    "thread_position_in_threadgroup" | "thread_index_in_threadgroup"
                );
                is_number && !b.is_vector
            }),
            _ => self.component(tokens) == Some(self.axis),
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
        !(builtin.is_vector && builtin.is_position() && component.is_some_and(|c| c != self.axis))
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
