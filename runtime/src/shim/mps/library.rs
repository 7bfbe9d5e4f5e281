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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::abi::In;
    use crate::shim::constants::DEVICE_MPS;
    use crate::shim::create::aoti_torch__reinterpret_tensor;
    use crate::shim::mps::kernel::*;
    use crate::shim::testing::{call, empty, get, model, read, write};
    use crate::tensor::DType;

    #[test]
    fn msl_runs_on_views_and_eight_byte_integers() {
        let (model, guard) = model();
        let source = c"
            #include <metal_stdlib>
            using namespace metal;
            kernel void scale(device float* out [[buffer(0)]],
                              constant float* in [[buffer(1)]],
                              constant long& factor [[buffer(2)]],
                              uint i [[thread_position_in_grid]]) {
                out[i] = in[i] * static_cast<float>(factor);
            }";
        let library = get!(aoti_torch_mps_create_shader_library, Text::of(source)).unwrap();
        let kernel = get!(aoti_torch_mps_get_kernel_function, library, Text::of(c"scale")).unwrap();
        let base = empty(&[8], &[1], DType::F32.code(), DEVICE_MPS);
        write(base, &[0f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        let (sizes, strides) = (In::of(&[3]), In::of(&[1]));
        let tail = get!(aoti_torch__reinterpret_tensor, base, 1, sizes, strides, 5).unwrap();
        call!(aoti_torch_mps_start_encoding, kernel).unwrap();
        call!(aoti_torch_mps_set_arg_tensor, kernel, 0, base).unwrap();
        call!(aoti_torch_mps_set_arg_tensor, kernel, 1, tail).unwrap();
        call!(aoti_torch_mps_set_arg_int, kernel, 2, -(1 << 33)).unwrap();
        call!(aoti_torch_mps_dispatch_single, kernel, 3).unwrap();
        let unit = -(1u64 << 33).cast_signed() as f32;
        assert_eq!(read::<f32>(base, 4), [5.0 * unit, 6.0 * unit, 7.0 * unit, 3.0]);
        assert!(guard.take_error().is_none());
        assert_eq!(model.release(), 3);
    }

    #[test]
    fn msl_that_does_not_compile_is_told_with_its_line() {
        let (model, guard) = model();
        let source = c"kernel void k(device float* out [[buffer(0)]]) {\n  out[0] = nonsense;\n}";
        // A device may compile with the library, or when the kernel is first asked for.
        let text = get!(aoti_torch_mps_create_shader_library, Text::of(source))
            .and_then(|library| get!(aoti_torch_mps_get_kernel_function, library, Text::of(c"k")))
            .unwrap_err();
        for part in ["aoti_torch_mps_", "library 1", "nonsense", "2"] {
            assert!(text.contains(part), "{text}");
        }
        let kept = guard.take_error().unwrap();
        assert!(matches!(kept, crate::Error::ShaderCompile(_)), "{kept:?}");
        model.release();
    }
}
