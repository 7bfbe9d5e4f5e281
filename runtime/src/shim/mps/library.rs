//! Shader libraries and their kernels.

use crate::shim::abi::{Out, Text, c_functions};
use crate::shim::{context, registry};
use crate::tensor::RawHandle;

c_functions! {
    /// Compiles MSL source.
    fn aoti_torch_mps_create_shader_library(
        metal_shader_source: Text,
        library_handle: Out<RawHandle>,
    ) {
        library_handle.check("library_handle")?;
        // Whatever happens, the caller must not be left with a wild handle: it may not look at
        // the status.
        library_handle.set("library_handle", RawHandle::NULL)?;
        let source = metal_shader_source.str("metal_shader_source")?;
        let model = context::current()?;
        let handle = registry::lend_library(model.owner(), model.library(source)?);
        library_handle.set("library_handle", handle)
    }

    /// Deletes a library and with it the handles of its kernels. Work that was encoded keeps
    /// what it needs. Called from static destructors, after everything else of the model is gone.
    fn aoti_torch_mps_delete_shader_library(library_handle: RawHandle) {
        if library_handle.is_null() {
            return Ok(());
        }
        registry::delete_library(library_handle)
    }

    /// The handle of a kernel; it lives as long as the library.
    fn aoti_torch_mps_get_kernel_function(
        library_handle: RawHandle,
        kernel_name: Text,
        function_handle: Out<RawHandle>,
    ) {
        function_handle.check("function_handle")?;
        function_handle.set("function_handle", RawHandle::NULL)?;
        let name = kernel_name.str("kernel_name")?;
        let kernel = registry::kernel_of_library(library_handle, name)?;
        function_handle.set("function_handle", kernel)
    }
}
