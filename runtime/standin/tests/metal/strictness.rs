//! That the stand-in sees what breaks Metal's rules, by calls that the device never makes.

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_metal::{
    MTLBlitCommandEncoder, MTLBuffer, MTLCommandBuffer, MTLCommandEncoder,
    MTLComputeCommandEncoder, MTLCreateSystemDefaultDevice, MTLDevice, MTLResourceOptions, MTLSize,
};
use objc2_metal_performance_shaders::MPSCommandBuffer;

use crate::common::lasting_rules;

const ONE: MTLSize = MTLSize { width: 1, height: 1, depth: 1 };

fn with_commands(
    test: impl FnOnce(&MPSCommandBuffer, &ProtocolObject<dyn MTLBuffer>),
) -> Vec<String> {
    let rules = lasting_rules();
    autoreleasepool(|_| {
        let device = MTLCreateSystemDefaultDevice().unwrap();
        let queue = device.newCommandQueue().unwrap();
        // SAFETY: the queue lives.
        let commands = unsafe { MPSCommandBuffer::commandBufferFromCommandQueue(&queue) };
        let shared = MTLResourceOptions::StorageModeShared;
        let buffer = device.newBufferWithLength_options(64, shared).unwrap();
        test(&commands, &buffer);
    });
    rules.broken()
}

#[test]
fn encoding_at_the_wrong_time() {
    let broken = with_commands(|commands, buffer| {
        let encoder = commands.computeCommandEncoder().unwrap();
        assert!(commands.blitCommandEncoder().is_none());
        encoder.dispatchThreads_threadsPerThreadgroup(ONE, ONE);
        encoder.endEncoding();
        encoder.endEncoding();
        // SAFETY: the stand-in refuses it.
        unsafe { encoder.setBuffer_offset_atIndex(Some(buffer), 0, 0) };
        commands.commit();
        commands.commit();
        assert!(commands.computeCommandEncoder().is_none());
    });
    assert_eq!(
        broken,
        [
            "metal: blitCommandEncoder while another encoder is open",
            "metal: a dispatch without a pipeline",
            "metal: endEncoding after endEncoding",
            "metal: setBuffer:offset:atIndex: after endEncoding",
            "metal: commit on a command buffer that was committed",
            "metal: computeCommandEncoder on a command buffer that was committed",
        ]
    );
}

#[test]
fn encoders_that_are_not_ended() {
    let broken = with_commands(|commands, _| {
        drop(commands.computeCommandEncoder().unwrap());
        commands.commit();
    });
    assert!(broken.contains(&"metal: commit with an open encoder".to_owned()), "{broken:?}");
    let without = "metal: an encoder is released without endEncoding".to_owned();
    assert!(broken.contains(&without), "{broken:?}");
}

#[test]
fn ranges_and_indices_that_cannot_be() {
    let broken = with_commands(|commands, buffer| {
        let encoder = commands.computeCommandEncoder().unwrap();
        // SAFETY: the stand-in refuses all of it.
        unsafe {
            encoder.setBuffer_offset_atIndex(Some(buffer), 65, 0);
            encoder.setBuffer_offset_atIndex(Some(buffer), 0, 31);
            encoder.setBytes_length_atIndex(buffer.contents(), 4097, 0);
            encoder.setThreadgroupMemoryLength_atIndex(8, 0);
        }
        encoder.endEncoding();
        let blit = commands.blitCommandEncoder().unwrap();
        // SAFETY: the stand-in refuses it.
        unsafe {
            blit.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                buffer, 60, buffer, 0, 8,
            );
        }
        blit.fillBuffer_range_value(buffer, objc2_foundation::NSRange::new(1, 4), 0);
        blit.endEncoding();
    });
    assert_eq!(
        broken,
        [
            "metal: setBuffer: offset 65 of 64 bytes",
            "metal: argument index 31",
            "metal: setBytes: 4097 bytes",
            "metal: threadgroup memory 0: 8 bytes",
            "metal: a blit of 8 bytes at 60 of a buffer of 64",
            "metal: a blit of 4 bytes at 1 of a buffer of 64",
        ]
    );
}

#[test]
fn objects_that_leak_or_are_released_too_often() {
    let rules = lasting_rules();
    let since = etmetal_standin::objc::objects::mark();
    autoreleasepool(|_| {
        let device = MTLCreateSystemDefaultDevice().unwrap();
        let shared = MTLResourceOptions::StorageModeShared;
        let buffer = device.newBufferWithLength_options(64, shared).unwrap();
        std::mem::forget(buffer.clone());
        let kept = Retained::into_raw(buffer);
        assert_eq!(etmetal_standin::objc::objects::live_since(since)["StandinBuffer"], 1);
        for _ in 0..3 {
            // SAFETY: it is not: two references exist, and the third is the fault that is seen.
            unsafe { etmetal_standin::objc::objects::objc_release(kept.cast()) };
        }
        assert!(etmetal_standin::objc::objects::live_since(since).is_empty());
    });
    assert_eq!(rules.broken(), ["use-after-free: release on deallocated StandinBuffer"]);
}

#[test]
fn autoreleases_without_a_pool() {
    let rules = lasting_rules();
    std::thread::spawn(|| {
        let object = objc2_foundation::NSString::from_str("nobody's");
        let _ = Retained::autorelease_ptr(object);
    })
    .join()
    .unwrap();
    let broken = rules.broken();
    assert!(broken.len() == 1 && broken[0].starts_with("no-pool:"), "{broken:?}");
}

#[test]
fn objects_that_go_without_a_pool() {
    let rules = lasting_rules();
    std::thread::spawn(|| {
        let queue = autoreleasepool(|_| {
            let device = MTLCreateSystemDefaultDevice().unwrap();
            device.newCommandQueue().unwrap()
        });
        drop(queue);
    })
    .join()
    .unwrap();
    assert_eq!(rules.broken(), ["no-pool: a StandinCommandQueue goes with no pool in place"]);
}
