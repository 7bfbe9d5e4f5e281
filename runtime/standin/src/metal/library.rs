//! Libraries, functions and pipelines, and what reflection tells of them.

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use etmetal::device::host::pipeline::HostPipeline;
use etmetal::device::{Device, DeviceLibrary, Pipeline};
use objc2::rc::{Allocated, Retained};
use objc2::runtime::{AnyObject, NSObject, NSObjectProtocol, ProtocolObject};
use objc2::{AnyThread, DefinedClass, Message, define_class, msg_send};
use objc2_foundation::{NSArray, NSString};
use objc2_metal::{
    MTLAllocation, MTLBinaryArchive, MTLBinding, MTLBindingType, MTLBufferBinding,
    MTLCompileOptions, MTLComputePipelineDescriptor, MTLComputePipelineReflection,
    MTLComputePipelineState, MTLFunction, MTLLanguageVersion, MTLLibrary,
    MTLMathFloatingPointFunctions, MTLMathMode,
};

use super::archive::BinaryArchive;
use super::ours;
use crate::foundation::collections::Array;
use crate::foundation::strings::{Text, string};
use crate::violations::violation;

/// What compile options were set to.
#[derive(Default)]
pub struct Chosen {
    version: Cell<Option<MTLLanguageVersion>>,
    safe: Cell<bool>,
    precise: Cell<bool>,
}

define_class!(
    /// How a library is compiled.
    #[unsafe(super(NSObject))]
    #[name = "MTLCompileOptions"]
    #[ivars = Chosen]
    pub struct CompileOptions;

    impl CompileOptions {
        #[unsafe(method_id(init))]
        fn init(this: Allocated<Self>) -> Retained<Self> {
            let this = this.set_ivars(Chosen::default());
            unsafe { msg_send![super(this), init] }
        }

        #[unsafe(method(setLanguageVersion:))]
        fn set_version(&self, version: MTLLanguageVersion) {
            self.ivars().version.set(Some(version));
        }

        #[unsafe(method(setMathMode:))]
        fn set_mode(&self, mode: MTLMathMode) {
            self.ivars().safe.set(mode == MTLMathMode::Safe);
        }

        #[unsafe(method(setMathFloatingPointFunctions:))]
        fn set_functions(&self, functions: MTLMathFloatingPointFunctions) {
            self.ivars().precise.set(functions == MTLMathFloatingPointFunctions::Precise);
        }

        #[unsafe(method(setFastMathEnabled:))]
        fn set_fast(&self, fast: bool) {
            self.ivars().safe.set(!fast);
            self.ivars().precise.set(!fast);
        }
    }
);

impl CompileOptions {
    /// Models are exported for exact arithmetic.
    pub fn check(options: Option<&MTLCompileOptions>) {
        let object: Option<&AnyObject> = options.map(|options| options.as_ref());
        let chosen = object.and_then(|object| object.downcast_ref::<CompileOptions>());
        let exact = chosen.is_some_and(|options| {
            let Chosen { version, safe, precise } = options.ivars();
            version.get() == Some(MTLLanguageVersion::Version3_1) && safe.get() && precise.get()
        });
        if !exact {
            violation("numerics", "a library compiled with fast mathematics, or not as MSL 3.1");
        }
    }
}

define_class!(
    /// A compiled source.
    #[unsafe(super(NSObject))]
    #[name = "StandinLibrary"]
    #[ivars = (Arc<dyn DeviceLibrary>, String)]
    pub struct Library;

    unsafe impl NSObjectProtocol for Library {}

    unsafe impl MTLLibrary for Library {
        #[unsafe(method_id(functionNames))]
        fn function_names(&self) -> Retained<NSArray<NSString>> {
            // In another order than the source's, as Metal has none.
            let mut names = self.ivars().0.function_names();
            names.sort_by(|a, b| b.cmp(a));
            let objects =
                names.iter().map(|n| unsafe { Retained::cast_unchecked(Text::make(n)) }).collect();
            unsafe { Retained::cast_unchecked(Array::make(objects)) }
        }

        #[unsafe(method_id(newFunctionWithName:))]
        fn new_function(
            &self,
            name: &NSString,
        ) -> Option<Retained<ProtocolObject<dyn MTLFunction>>> {
            let name = name.to_string();
            self.ivars().0.function_names().contains(&name).then(|| {
                let this = Function::alloc().set_ivars((self.retain(), name));
                let function: Retained<Function> = unsafe { msg_send![super(this), init] };
                ProtocolObject::from_retained(function)
            })
        }
    }
);

unsafe impl Send for Library {}
unsafe impl Sync for Library {}

/// What the compiler takes for something else: a text, and what it reads instead.
static MISREAD: Mutex<Option<(&'static str, &'static str)>> = Mutex::new(None);

/// Makes the compiler take a text of sources for another one; `None` for none.
pub fn misread(text: Option<(&'static str, &'static str)>) {
    *MISREAD.lock().unwrap() = text;
}

impl Library {
    /// Compiles a source.
    pub fn compile(source: &str) -> etmetal::Result<Retained<Self>> {
        let library = match *MISREAD.lock().unwrap() {
            Some((from, to)) => super::host().compile(&source.replace(from, to))?,
            None => super::host().compile(source)?,
        };
        let this = Self::alloc().set_ivars((library, source.to_owned()));
        Ok(unsafe { msg_send![super(this), init] })
    }
}

define_class!(
    /// A kernel of a library.
    #[unsafe(super(NSObject))]
    #[name = "StandinFunction"]
    #[ivars = (Retained<Library>, String)]
    pub struct Function;

    unsafe impl NSObjectProtocol for Function {}
    unsafe impl MTLFunction for Function {}
);

unsafe impl Send for Function {}
unsafe impl Sync for Function {}

impl Function {
    /// What an archive knows it by.
    pub fn identity(&self) -> String {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let (library, name) = self.ivars();
        let mut hash = DefaultHasher::new();
        library.ivars().1.hash(&mut hash);
        format!("{:016x} {name}", hash.finish())
    }
}

/// What a pipeline is made of.
#[derive(Default)]
pub struct Ingredients {
    function: Mutex<Option<Retained<Function>>>,
    archives: Mutex<Vec<Retained<BinaryArchive>>>,
}

define_class!(
    /// What a pipeline is made of.
    #[unsafe(super(NSObject))]
    #[name = "MTLComputePipelineDescriptor"]
    #[ivars = Ingredients]
    pub struct PipelineDescriptor;

    impl PipelineDescriptor {
        #[unsafe(method_id(init))]
        fn init(this: Allocated<Self>) -> Retained<Self> {
            let this = this.set_ivars(Ingredients::default());
            unsafe { msg_send![super(this), init] }
        }

        #[unsafe(method(setComputeFunction:))]
        fn set_function(&self, function: Option<&ProtocolObject<dyn MTLFunction>>) {
            let function = function.map(|function| ours::<Function>(function).retain());
            *self.ivars().function.lock().unwrap() = function;
        }

        #[unsafe(method(setBinaryArchives:))]
        fn set_archives(&self, archives: Option<&NSArray<ProtocolObject<dyn MTLBinaryArchive>>>) {
            let archives = archives.map(|archives| archives.to_vec()).unwrap_or_default();
            *self.ivars().archives.lock().unwrap() =
                archives.iter().map(|a| ours::<BinaryArchive>(&**a).retain()).collect();
        }
    }
);

impl PipelineDescriptor {
    /// The function, if there is one, and the archives to look into.
    pub fn parts(
        descriptor: &MTLComputePipelineDescriptor,
    ) -> Option<(Retained<Function>, Vec<Retained<BinaryArchive>>)> {
        let object: &AnyObject = descriptor.as_ref();
        let Ingredients { function, archives } =
            object.downcast_ref::<PipelineDescriptor>()?.ivars();
        Some((function.lock().unwrap().clone()?, archives.lock().unwrap().clone()))
    }
}

define_class!(
    /// A kernel, ready to run.
    #[unsafe(super(NSObject))]
    #[name = "StandinPipelineState"]
    #[ivars = Arc<dyn Pipeline>]
    pub struct PipelineState;

    unsafe impl NSObjectProtocol for PipelineState {}
    unsafe impl MTLAllocation for PipelineState {}

    unsafe impl MTLComputePipelineState for PipelineState {
        #[unsafe(method(maxTotalThreadsPerThreadgroup))]
        fn max_threads(&self) -> usize {
            self.ivars().max_threads_per_threadgroup() as usize
        }

        #[unsafe(method(threadExecutionWidth))]
        fn width(&self) -> usize {
            self.ivars().simd_width() as usize
        }

        #[unsafe(method(staticThreadgroupMemoryLength))]
        fn static_memory(&self) -> usize {
            self.ivars().static_threadgroup_memory() as usize
        }
    }
);

unsafe impl Send for PipelineState {}
unsafe impl Sync for PipelineState {}

impl PipelineState {
    /// The pipeline of a function.
    pub fn make(function: &Function) -> etmetal::Result<Retained<Self>> {
        let (library, name) = function.ivars();
        let this = Self::alloc().set_ivars(library.ivars().0.pipeline(name)?);
        Ok(unsafe { msg_send![super(this), init] })
    }

    /// The pipeline as the host device has it.
    pub fn on_host(&self) -> &Arc<dyn Pipeline> {
        self.ivars()
    }
}

define_class!(
    /// What a kernel wants bound.
    #[unsafe(super(NSObject))]
    #[name = "MTLComputePipelineReflection"]
    #[ivars = Retained<Array>]
    pub struct Reflection;

    impl Reflection {
        #[unsafe(method_id(bindings))]
        fn bindings(&self) -> Retained<Array> {
            self.ivars().clone()
        }
    }
);

impl Reflection {
    /// What the kernel of a pipeline wants bound.
    pub fn of(state: &PipelineState) -> Retained<MTLComputePipelineReflection> {
        let host: &HostPipeline =
            state.ivars().as_any().downcast_ref().expect("the host device made it");
        let kinds = [
            (MTLBindingType::Buffer, host.buffer_parameters()),
            (MTLBindingType::ThreadgroupMemory, host.threadgroup_parameters()),
        ];
        let mut bindings: Vec<Retained<AnyObject>> = Vec::new();
        for (kind, parameters) in kinds {
            for parameter in parameters {
                let this = Binding::alloc().set_ivars(Wanted {
                    kind,
                    name: parameter.name.clone(),
                    index: parameter.index as usize,
                    alignment: parameter.alignment,
                    bytes: parameter.bytes,
                });
                let binding: Retained<Binding> = unsafe { msg_send![super(this), init] };
                bindings.push(unsafe { Retained::cast_unchecked(binding) });
            }
        }
        let this = Self::alloc().set_ivars(Array::make(bindings));
        let reflection: Retained<Self> = unsafe { msg_send![super(this), init] };
        unsafe { Retained::cast_unchecked(reflection) }
    }
}

/// One parameter.
pub struct Wanted {
    kind: MTLBindingType,
    name: String,
    index: usize,
    alignment: usize,
    bytes: usize,
}

define_class!(
    /// One parameter of a kernel.
    #[unsafe(super(NSObject))]
    #[name = "StandinBinding"]
    #[ivars = Wanted]
    pub struct Binding;

    unsafe impl NSObjectProtocol for Binding {}

    unsafe impl MTLBinding for Binding {
        #[unsafe(method_id(name))]
        fn name(&self) -> Retained<NSString> {
            string(&self.ivars().name)
        }

        #[unsafe(method(type))]
        fn kind(&self) -> MTLBindingType {
            self.ivars().kind
        }

        #[unsafe(method(index))]
        fn index(&self) -> usize {
            self.ivars().index
        }

        #[unsafe(method(isUsed))]
        fn is_used(&self) -> bool {
            true
        }
    }

    unsafe impl MTLBufferBinding for Binding {
        #[unsafe(method(bufferAlignment))]
        fn alignment(&self) -> usize {
            self.ivars().alignment
        }

        #[unsafe(method(bufferDataSize))]
        fn bytes(&self) -> usize {
            self.ivars().bytes
        }
    }
);

unsafe impl Send for Binding {}
unsafe impl Sync for Binding {}
