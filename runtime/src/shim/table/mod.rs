//! Every function of PyTorch's C shims, and what becomes of it here.
//!
//! [`FUNCTIONS`] lists all of PyTorch 2.15's `shim.h`, `shim_mps.h` and `stable/c/shim.h`, which
//! contain all of 2.13's, and of the generated operators those that a Metal export may fall back
//! to. The tests hold the list against what is really exported, with its types.

mod functions;

use std::sync::OnceLock;

use super::abi::Symbol;
use super::{attributes, check, constants, copies, create, diagnostics, grad_mode, mps, scalars};

pub use functions::FUNCTIONS;

/// What becomes of a function of PyTorch's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It is exported.
    Implemented,
    /// No Metal model can make use of it, for this reason. A model that needs it is refused when
    /// it is loaded.
    NotApplicable(&'static str),
}

/// One function of PyTorch's headers.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// The declaration, without the final semicolon.
    pub signature: &'static str,
    /// The PyTorch version that introduced it; "2.9" stands for that or an older one.
    pub since: &'static str,
    /// What becomes of it.
    pub status: Status,
}

impl Function {
    /// Its name.
    pub fn name(&self) -> &'static str {
        let head = self.signature.split('(').next().unwrap_or_default();
        head.rsplit([' ', '*']).next().unwrap_or_default()
    }
}

/// The functions that this library exports to models, by file.
const FAMILIES: &[&[Symbol]] = &[
    attributes::SYMBOLS,
    check::SYMBOLS,
    constants::SYMBOLS,
    copies::SYMBOLS,
    create::SYMBOLS,
    diagnostics::SYMBOLS,
    grad_mode::SYMBOLS,
    scalars::SYMBOLS,
    mps::attention::SYMBOLS,
    mps::block::SYMBOLS,
    mps::convolution::SYMBOLS,
    mps::cumulative::SYMBOLS,
    mps::gated_delta_rule::SYMBOLS,
    mps::gather_qmv::SYMBOLS,
    mps::kernel::SYMBOLS,
    mps::library::SYMBOLS,
    mps::linear_nbit::SYMBOLS,
    mps::memory::SYMBOLS,
    mps::ops::SYMBOLS,
    mps::order::SYMBOLS,
];

/// The functions that this library exports to models, with their Rust types, by name.
pub fn exports() -> impl Iterator<Item = &'static Symbol> {
    FAMILIES.iter().copied().flatten()
}

/// The names of the functions that this library exports to models, sorted: what a loader may
/// count on when it looks at a model's undefined symbols.
pub fn symbols() -> &'static [&'static str] {
    static NAMES: OnceLock<Vec<&'static str>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names: Vec<_> = exports().map(|symbol| symbol.name).collect();
        names.sort_unstable();
        names
    })
}

/// The address of the function of this name that this library gives to models, if there is one.
pub fn address(name: &str) -> Option<*const std::ffi::c_void> {
    exports().find(|s| s.name == name).map(|symbol| (symbol.address)() as *const std::ffi::c_void)
}

/// What is known of a function by name: why it is not there, if it is not.
pub fn lookup(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name() == name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use object::{Object as _, ObjectSymbol as _};

    use super::*;

    /// A C type as its shape: constness and the kind of handle do not change how it is passed.
    fn c_shape(text: &str) -> String {
        let text = text.replace("const ", "").trim().to_owned();
        if let Some(target) = text.strip_suffix('*') {
            return format!("pointer to {}", c_shape(target));
        }
        match text.as_str() {
            "AOTITorchError" => "status",
            "void" => "void",
            "char" => "char",
            "bool" => "bool",
            "int8_t" => "i8",
            "int16_t" => "i16",
            "int32_t" => "i32",
            "int64_t" => "i64",
            "uint8_t" => "u8",
            "uint16_t" => "u16",
            "uint32_t" | "unsigned" => "u32",
            "uint64_t" => "u64",
            "size_t" => "usize",
            "float" => "f32",
            "double" => "f64",
            "c10::Half" => "f16",
            "c10::BFloat16" => "bf16",
            "c10::complex<float>" => "complex64",
            "aoti_torch_mps_command_block_callback_t" => "callback",
            handle if handle.ends_with("Handle") => "handle",
            other => panic!("unknown C type {other:?}"),
        }
        .to_owned()
    }

    /// A Rust type of a shim as its shape.
    fn rust_shape(text: &str) -> String {
        // A type that came through several macros is printed with spaces inside.
        let text = &text.replace(" <", "<").replace("< ", "<").replace(" >", ">");
        let inner = |prefix: &str| text.strip_prefix(prefix)?.strip_suffix('>');
        if let Some(target) = inner("Out<").or(inner("In<")) {
            return format!("pointer to {}", rust_shape(target));
        }
        if let Some(target) = text.strip_prefix("*mut ").or(text.strip_prefix("*const ")) {
            return format!("pointer to {}", rust_shape(target));
        }
        match text.as_str() {
            "Status" => "status",
            "()" | "c_void" => "void",
            "c_char" => "char",
            "Text" => "pointer to char",
            "RawHandle" => "handle",
            "Complex64" => "complex64",
            "Callback" => "callback",
            plain @ ("bool" | "i8" | "i16" | "i32" | "i64" | "u8" | "u16" | "u32" | "u64"
            | "usize" | "f16" | "bf16" | "f32" | "f64") => plain,
            other => panic!("unknown Rust type {other:?}"),
        }
        .to_owned()
    }

    /// Result and parameters of a C declaration, as shapes.
    fn c_signature(function: &Function) -> (String, Vec<String>) {
        let (head, parameters) = function.signature.split_once('(').unwrap();
        let result = head.strip_suffix(function.name()).unwrap();
        let parameters = parameters.strip_suffix(')').unwrap();
        let parameters = parameters.split(", ").filter(|p| !p.is_empty()).map(|parameter| {
            let name = parameter.rfind([' ', '*']).unwrap() + 1;
            c_shape(&parameter[..name])
        });
        (c_shape(result), parameters.collect())
    }

    #[test]
    fn names_are_unique() {
        let mut seen = HashSet::new();
        for function in FUNCTIONS {
            assert!(seen.insert(function.name()), "{} is listed twice", function.name());
        }
        assert!(symbols().windows(2).all(|w| w[0] < w[1]));
        assert!(seen.contains("torch_exception_get_what"), "a pointer result hides no name");
    }

    #[test]
    fn what_is_said_to_be_implemented_is_and_nothing_else() {
        let said: HashSet<_> = FUNCTIONS
            .iter()
            .filter(|f| f.status == Status::Implemented)
            .map(Function::name)
            .collect();
        let real: HashSet<_> = symbols().iter().copied().collect();
        assert_eq!(said, real);
        assert!(real.len() > 100);
    }

    #[test]
    fn types_are_those_of_the_headers() {
        for symbol in exports() {
            let function = lookup(symbol.name).unwrap();
            let (result, parameters) = c_signature(function);
            assert_eq!(result, rust_shape(symbol.returns), "the result of {}", symbol.name);
            let ours: Vec<_> = symbol.parameters.iter().map(|p| rust_shape(p)).collect();
            assert_eq!(parameters, ours, "the parameters of {}", symbol.name);
        }
    }

    #[test]
    fn exports_are_symbols_of_the_binary() {
        let addresses: HashSet<_> = exports().map(|symbol| (symbol.address)()).collect();
        assert!(!addresses.contains(&0) && addresses.len() > 1);
        let binary = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let binary = object::File::parse(&*binary).unwrap();
        let names: HashSet<_> = binary
            .symbols()
            .filter(|symbol| symbol.is_definition())
            .filter_map(|symbol| symbol.name().ok())
            .map(|name| {
                name.strip_prefix("_").filter(|_| cfg!(target_vendor = "apple")).unwrap_or(name)
            })
            .collect();
        for symbol in exports() {
            assert!(names.contains(symbol.name), "{} is not exported", symbol.name);
        }
    }

    #[test]
    fn a_real_model_needs_nothing_that_is_not_there() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/mlp/model.pte");
        let program = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let start = program.windows(4).position(|w| w == b"\x7fELF").unwrap();
        let library = object::File::parse(&program[start..]).unwrap();
        let needed: Vec<_> = library
            .dynamic_symbols()
            .filter(|symbol| symbol.is_undefined())
            .filter_map(|symbol| symbol.name().ok())
            .filter(|name| name.starts_with("aoti_"))
            .collect();
        assert!(needed.len() > 30, "{needed:?}");
        for name in needed {
            assert!(symbols().binary_search(&name).is_ok(), "{name} is not exported");
        }
    }

    #[test]
    fn what_exported_models_call_is_known() {
        // What AOTInductor's Metal exports of the usual modules leave undefined, beyond the
        // model above.
        let called = [
            "aoti_torch__reinterpret_tensor",
            "aoti_torch_dtype_bfloat16",
            "aoti_torch_dtype_bool",
            "aoti_torch_dtype_int32",
            "aoti_torch_dtype_int64",
            "aoti_torch_dtype_uint8",
            "aoti_torch_mps__linear_fp_act_4bit_weight",
            "aoti_torch_mps__scaled_dot_product_attention_math_for_mps_v2",
            "aoti_torch_mps_addmm_out",
            "aoti_torch_mps_convolution",
            "aoti_torch_mps_dispatch_array",
            "aoti_torch_mps_dispatch_array_with_group_size",
            "aoti_torch_mps_gated_delta_rule",
            "aoti_torch_mps_gather_qmv",
            "aoti_torch_mps_set_arg_int",
            "aoti_torch_mps_topk",
        ];
        for name in called {
            let function = lookup(name).unwrap_or_else(|| panic!("{name} is not listed"));
            assert!(
                matches!(function.status, Status::Implemented),
                "{name}: {:?}",
                function.status
            );
        }
    }
}
