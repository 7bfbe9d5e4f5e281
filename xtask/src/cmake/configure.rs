//! The command that configures a build folder.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;

use super::CmakeBuild;
use crate::executorch::{Executorch, Tree};
use crate::preset::backend::Metal;
use crate::preset::platform;
use crate::process::Invocation;
use crate::toolchain::{apple, linux};

/// CMake with `-D` arguments.
struct Definitions(Invocation);

impl Definitions {
    fn set(&mut self, name: &str, value: impl Into<OsString>) {
        let mut text = OsString::from(format!("-D{name}="));
        text.push(value.into());
        self.0 = self.0.clone().arg(text);
    }

    fn set_list(&mut self, name: &str, values: &[String]) {
        if !values.is_empty() {
            self.set(name, values.join(" "));
        }
    }
}

impl CmakeBuild<'_> {
    /// Configures the build folder anew.
    ///
    /// # Errors
    /// The preset's options contradict what it builds.
    pub(super) fn configure(&self) -> Result<Invocation> {
        let generator = &self.preset().toolchain.generator.value;
        let invocation = self.cmake().args(["--fresh", "-G", generator, "-S"]).arg(self.source());
        let mut definitions = Definitions(invocation.arg("-B").arg(self.folder()));
        self.define_toolchain(&mut definitions);
        self.define_apple(&mut definitions);
        self.define_other_linux(&mut definitions);
        match self.executorch {
            Executorch::Sdk(sdk) => definitions.set("CMAKE_PREFIX_PATH", &sdk.root),
            Executorch::Tree(_) => self.define_tree(&mut definitions)?,
        }
        definitions.set("CMAKE_INSTALL_PREFIX", self.stage());
        definitions.set("CMAKE_INSTALL_LIBDIR", "lib");
        definitions.set("CMAKE_EXPORT_COMPILE_COMMANDS", "ON");
        if self.has_etmetal() {
            definitions.set("ETMETAL_RUST_LIBRARY", self.rust.library());
            if self.has_archive() {
                definitions.set("ETMETAL_ARCHIVE", "ON");
            }
            if !self.has_shared() {
                definitions.set("ETMETAL_SHARED", "OFF");
            }
            for (name, value) in self.linkage.cmake_definitions(&self.exports()) {
                definitions.set(name, value);
            }
        }
        Ok(definitions.0)
    }

    fn define_toolchain(&self, definitions: &mut Definitions) {
        let toolchain = &self.preset().toolchain;
        definitions.set("CMAKE_BUILD_TYPE", self.preset().build.cmake_type());
        if let Some(cc) = &toolchain.cc {
            definitions.set("CMAKE_C_COMPILER", &cc.value);
        }
        definitions.set("CMAKE_CXX_COMPILER", self.cxx);
        if toolchain.generator.value.starts_with("Ninja") {
            definitions.set("CMAKE_MAKE_PROGRAM", self.venv.program("ninja"));
        }
        if let Some(launcher) = self.launcher {
            definitions.set("CMAKE_C_COMPILER_LAUNCHER", launcher);
            definitions.set("CMAKE_CXX_COMPILER_LAUNCHER", launcher);
        }
        definitions.set_list("CMAKE_C_FLAGS", &toolchain.cflags);
        definitions.set_list("CMAKE_CXX_FLAGS", &toolchain.cxxflags);
        definitions.set_list("CMAKE_SHARED_LINKER_FLAGS", &self.preset().link.flags);
    }

    /// What CMake has to know of an Apple target.
    fn define_apple(&self, definitions: &mut Definitions) {
        let triple = &self.preset().target;
        let Some((architecture, system)) = triple.split_once("-apple-") else { return };
        let architecture = if architecture == "aarch64" { "arm64" } else { architecture };
        definitions.set("CMAKE_OSX_ARCHITECTURES", architecture);
        if system.starts_with("ios") {
            definitions.set("CMAKE_SYSTEM_NAME", "iOS");
            // Packages are looked for in the SDK alone otherwise.
            definitions.set("CMAKE_FIND_ROOT_PATH_MODE_PACKAGE", "BOTH");
        } else if self.preset().host != "macos" {
            definitions.set("CMAKE_SYSTEM_NAME", "Darwin");
        }
        let toolchain = &self.preset().toolchain;
        if let Some(version) = &toolchain.deployment_target {
            definitions.set("CMAKE_OSX_DEPLOYMENT_TARGET", &version.value);
        }
        if let Some(sysroot) = &toolchain.sysroot {
            definitions.set("CMAKE_OSX_SYSROOT", &sysroot.value);
        }
        if let Some(toolchain) = self.rust.toolchain {
            // Its programs know the target.
            definitions.set("CMAKE_C_COMPILER", toolchain.cc());
            definitions.set("CMAKE_AR", toolchain.ar());
            definitions.set("CMAKE_RANLIB", toolchain.ranlib());
            definitions.set("CMAKE_INSTALL_NAME_TOOL", toolchain.install_name_tool());
            definitions.set("CMAKE_OSX_SYSROOT", toolchain.sdk());
        } else if let Some(triple) = apple::clang_triple(self.preset()) {
            for language in ["C", "CXX", "OBJC", "OBJCXX", "ASM"] {
                definitions.set(&format!("CMAKE_{language}_COMPILER_TARGET"), &triple);
            }
        }
    }

    /// What CMake has to know of a Linux with another processor.
    fn define_other_linux(&self, definitions: &mut Definitions) {
        if !linux::is_cross(self.preset()) {
            return;
        }
        definitions.set("CMAKE_SYSTEM_NAME", "Linux");
        definitions.set("CMAKE_SYSTEM_PROCESSOR", linux::processor(&self.preset().target));
        if self.preset().toolchain.cc.is_none() {
            definitions.set("CMAKE_C_COMPILER", linux::cc(self.cxx));
        }
    }

    /// What ExecuTorch's own CMakeLists.txt has to know.
    fn define_tree(&self, definitions: &mut Definitions) -> Result<()> {
        // ExecuTorch takes ccache where it finds it, over the launcher that it is given.
        if let Some(launcher) = self.launcher {
            definitions.set("CCACHE_PROGRAM", launcher);
        }
        definitions.set("PYTHON_EXECUTABLE", self.python());
        if self.has_etmetal() {
            definitions.set("CMAKE_PROJECT_executorch_INCLUDE", self.project_include());
        }
        for (name, value) in Tree::options(self.preset()) {
            definitions.set(&name, value);
        }
        Ok(())
    }

    /// The Python that generates ExecuTorch's code: that of the PyTorch in use where there is
    /// one, as it needs some of PyTorch's modules.
    fn python(&self) -> std::path::PathBuf {
        self.torch_python.map_or_else(|| self.venv.python(), Path::to_owned)
    }

    /// Whether the delegate is also built as a static library, which applications link.
    pub fn has_archive(&self) -> bool {
        let sdk = matches!(self.executorch, Executorch::Sdk(_));
        self.has_etmetal() && sdk && platform::is_apple(&self.preset().target)
    }

    /// Whether libetmetal is built as a shared library: not on iOS, where applications link
    /// everything.
    pub fn has_shared(&self) -> bool {
        let sdk = matches!(self.executorch, Executorch::Sdk(_));
        !(sdk && platform::is_ios(&self.preset().target))
    }

    /// Whether this project's delegate is part of the build.
    pub fn has_etmetal(&self) -> bool {
        self.preset().backend.metal.value == Metal::Etmetal
    }
}
