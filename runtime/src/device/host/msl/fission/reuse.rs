//! Costly values that one loop over the elements computes, and a later one computes again: they
//! are kept for each element. A softmax has its exponentials this way, which PyTorch's generator
//! computes once for the sum and once for the quotients.

use std::collections::HashMap;

use super::super::lex::integer;
use super::Refusal;
use super::loops::Loop;
use super::statement::{Declaration, Statement, Tokens, name_places, parse, reads, same};
use super::steps::{Analysis, Step};

/// Most arrays of kept values.
const MOST_ARRAYS: usize = 8;

/// Functions that cost more than a load.
const COSTLY: [&str; 12] =
    ["cos", "erf", "exp", "exp2", "log", "log1p", "log2", "pow", "rsqrt", "sin", "sqrt", "tanh"];

/// Which statements keep a value, and which take one, by the numbers of the loop and of the
/// statement in its body; each with the number of the array.
#[derive(Debug, Default)]
pub(super) struct Reuse {
    pub keeps: HashMap<(usize, usize), usize>,
    pub takes: HashMap<(usize, usize), usize>,
    arrays: usize,
}

/// A costly value of an element.
struct Known<'k, 'a, 's> {
    /// What it is computed from, spelled without local names.
    value: String,
    of: &'k Loop<'a, 's>,
    at: (usize, usize),
}

impl Reuse {
    /// Finds what can be kept of loops over at most `most` elements. Once something is stored, what was read before may have changed.
    pub(super) fn find(analysis: &Analysis<'_, '_>, most: u64) -> Result<Reuse, Refusal> {
        let mut found = Reuse::default();
        let mut known: Vec<Known<'_, '_, '_>> = Vec::new();
        let mut number = 0;
        for step in &analysis.steps {
            match step {
                Step::Loop(of) => {
                    if few_elements(analysis, of, most) {
                        found.look_into(analysis, of, number, &mut known)?;
                    }
                    number += 1;
                    if !of.effects.stored.iter().all(|n| analysis.gathered.contains(n)) {
                        break;
                    }
                }
                Step::Uniform(work) | Step::Once(work) | Step::Varying(work) => {
                    if !work.effects.none() {
                        break;
                    }
                }
                Step::Barrier | Step::Collective(_) | Step::Simd(_) | Step::Guard { .. } => {}
            }
        }
        Ok(found)
    }

    fn look_into<'k, 'a, 's>(
        &mut self,
        analysis: &Analysis<'a, 's>,
        of: &'k Loop<'a, 's>,
        number: usize,
        known: &mut Vec<Known<'k, 'a, 's>>,
    ) -> Result<(), Refusal> {
        let mut values: HashMap<&str, Option<String>> = HashMap::new();
        values.insert(of.linear.name, Some("@".to_owned()));
        for (at, statement) in of.body.iter().enumerate() {
            let Statement::Declarations(all) = parse(statement)? else { continue };
            let [declaration] = all[..] else { continue };
            let value = spelled(analysis, of, &values, declaration);
            values.insert(declaration.name, value.clone());
            let Some(value) = value.filter(|_| is_costly(declaration)) else { continue };
            let same_elements = |k: &&Known<'_, '_, '_>| {
                k.value == value && k.at.0 != number && are_same_elements(k.of, of)
            };
            match known.iter().find(same_elements) {
                Some(before) if self.arrays < MOST_ARRAYS => {
                    let next = self.arrays;
                    let array = *self.keeps.entry(before.at).or_insert(next);
                    self.arrays = self.arrays.max(array + 1);
                    self.takes.insert((number, at), array);
                }
                Some(_) => {}
                None => known.push(Known { value, of, at: (number, at) }),
            }
        }
        Ok(())
    }
}

/// Whether the number of elements is known, and small enough to keep a value of each.
fn few_elements(analysis: &Analysis<'_, '_>, of: &Loop<'_, '_>, most: u64) -> bool {
    let number = |tokens: Tokens<'_, '_>| match tokens {
        [number] => integer(number.text).map(u64::from),
        _ => None,
    };
    let all = number(of.trips).zip(analysis.size).map(|(trips, size)| trips * u64::from(size));
    all.is_some_and(|n| n <= most)
}

fn are_same_elements(a: &Loop<'_, '_>, b: &Loop<'_, '_>) -> bool {
    let same_bound = match (a.bound, b.bound) {
        (Some(a), Some(b)) => same(a, b),
        (None, None) => true,
        _ => false,
    };
    a.order == b.order && same(a.trips, b.trips) && same_bound
}

fn is_costly(declaration: Declaration<'_, '_>) -> bool {
    reads(declaration.ty, &["auto"]) && declaration.init.iter().any(|t| COSTLY.contains(&t.text))
}

/// The value of a declaration in terms of the element and of what all elements share; `None` if
/// it depends on anything else.
fn spelled(
    analysis: &Analysis<'_, '_>,
    of: &Loop<'_, '_>,
    values: &HashMap<&str, Option<String>>,
    declaration: Declaration<'_, '_>,
) -> Option<String> {
    let changes = |name: &str| {
        of.effects.mutated.contains(name)
            || of.effects.stored.contains(name)
            || analysis.gathered.contains(name)
            || analysis.threadgroup.iter().any(|t| t.name == name)
    };
    if changes(declaration.name) {
        return None;
    }
    if let [name] = declaration.init
        && let Some(value) = values.get(name.text)
    {
        return value.clone();
    }
    let places: Vec<_> = name_places(declaration.init).collect();
    let mut text = String::new();
    for (at, token) in declaration.init.iter().enumerate() {
        if !places.contains(&at) {
            text.push_str(token.text);
        } else if let Some(value) = values.get(token.text) {
            text.push_str(&format!("({})", value.as_ref()?));
        } else if changes(token.text) {
            return None;
        } else {
            text.push_str(token.text);
        }
        text.push(' ');
    }
    Some(text)
}
