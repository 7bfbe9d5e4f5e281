//! Sending messages.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;

use super::blocks::is_block;
use super::classes::{Class, Imp, find};
use super::objects::{Id, alive, is_class};
use super::selectors::{Sel, s};

/// What a selector that a class lacks runs: an exception, as Foundation throws it.
pub(crate) extern "C-unwind" fn unrecognized(o: Id, sel: Sel) {
    let k = unsafe { &*(*o).isa };
    crate::foundation::errors::raise(
        "NSInvalidArgumentException",
        &format!(
            "{}[{} {}]: unrecognized selector",
            if k.meta { "+" } else { "-" },
            k.name.to_string_lossy(),
            s(sel)
        ),
    );
}

/// What a message to an object that has gone runs. That it has gone is recorded already.
pub(crate) extern "C-unwind" fn zombie(o: Id, sel: Sel) {
    panic!(
        "message -[{} {}] sent to deallocated instance",
        s(unsafe { (*(*o).isa).name.as_ptr() }),
        s(sel)
    );
}

/// Selectors of the messages that were sent to objects.
static SENT: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// The selectors that were sent so far.
pub fn sent() -> BTreeSet<String> {
    SENT.lock().unwrap().iter().map(|&selector| s(selector as Sel)).collect()
}

/// The code that a message to an object runs.
pub(crate) unsafe extern "C" fn lookup(o: Id, sel: Sel) -> Imp {
    unsafe {
        if !is_block(o) {
            SENT.lock().unwrap().insert(sel as usize);
        }
        if !is_class(o) && !is_block(o) && !alive(o, &s(sel)) {
            return zombie as extern "C-unwind" fn(Id, Sel) as Imp;
        }
        lookup_in((*o).isa, sel)
    }
}

/// The code of a selector in a class.
pub(crate) unsafe extern "C" fn lookup_in(c: *const Class, sel: Sel) -> Imp {
    match unsafe { find(c, sel).as_ref() } {
        Some(m) => m.imp.load(SeqCst) as Imp,
        None => unrecognized as extern "C-unwind" fn(Id, Sel) as Imp,
    }
}
#[repr(C)]
pub(crate) struct Super {
    receiver: Id,
    class: *const Class,
}

pub(crate) unsafe extern "C" fn lookup_super(s: *const Super, sel: Sel) -> Imp {
    unsafe { lookup_in((*s).class, sel) }
}

// objc_msgSend*: save argument registers, find the IMP, tail-jump. Nothing here ever unwinds (unrecognized
// selectors are reported from the IMP that we jump to).
macro_rules! trampoline { ($name:literal, $recv:literal, $sel:literal, $look:path, $fixup:literal, $niltest:literal) => {
    core::arch::global_asm!(
        concat!(".globl ", $name), concat!(".type ", $name, ",@function"), concat!($name, ":"),
        ".cfi_startproc",
        $niltest,
        "push rbp", ".cfi_def_cfa_offset 16", ".cfi_offset rbp, -16", "mov rbp, rsp", ".cfi_def_cfa_register rbp",
        "sub rsp, 192",
        "mov [rsp], rdi", "mov [rsp+8], rsi", "mov [rsp+16], rdx", "mov [rsp+24], rcx", "mov [rsp+32], r8", "mov [rsp+40], r9", "mov [rsp+48], rax",
        "movaps [rsp+64], xmm0", "movaps [rsp+80], xmm1", "movaps [rsp+96], xmm2", "movaps [rsp+112], xmm3",
        "movaps [rsp+128], xmm4", "movaps [rsp+144], xmm5", "movaps [rsp+160], xmm6", "movaps [rsp+176], xmm7",
        concat!("mov rax, ", $recv), concat!("mov rsi, ", $sel), "mov rdi, rax",
        "call {look}", "mov r11, rax",
        "mov rdi, [rsp]", "mov rsi, [rsp+8]", "mov rdx, [rsp+16]", "mov rcx, [rsp+24]", "mov r8, [rsp+32]", "mov r9, [rsp+40]", "mov rax, [rsp+48]",
        "movaps xmm0, [rsp+64]", "movaps xmm1, [rsp+80]", "movaps xmm2, [rsp+96]", "movaps xmm3, [rsp+112]",
        "movaps xmm4, [rsp+128]", "movaps xmm5, [rsp+144]", "movaps xmm6, [rsp+160]", "movaps xmm7, [rsp+176]",
        "leave", ".cfi_def_cfa rsp, 8",
        $fixup,
        "jmp r11",
        "8: xor eax, eax", "xor edx, edx", "pxor xmm0, xmm0", "pxor xmm1, xmm1", "ret",
        "9: mov rax, rdi", "ret",
        ".cfi_endproc", concat!(".size ", $name, ",.-", $name),
        look = sym $look,
    );
} }
trampoline!("objc_msgSend", "rdi", "rsi", lookup, "", "test rdi, rdi; jz 8f");
trampoline!("objc_msgSend_stret", "rsi", "rdx", lookup, "", "test rsi, rsi; jz 9f");
trampoline!("objc_msgSendSuper", "rdi", "rsi", lookup_super, "mov rdi, [rdi]", "");
trampoline!("objc_msgSendSuper_stret", "rsi", "rdx", lookup_super, "mov rsi, [rsi]", "");
