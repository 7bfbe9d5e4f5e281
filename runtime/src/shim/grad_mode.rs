//! Grad mode: a flag of each thread that inference keeps and never looks at.

use std::cell::Cell;

use super::abi::c_functions;

thread_local! {
    static ENABLED: Cell<bool> = const { Cell::new(true) };
}

c_functions! {
    /// Whether gradients would be recorded.
    fn aoti_torch_grad_mode_is_enabled() -> bool = true; { Ok(ENABLED.get()) }

    /// Sets what `aoti_torch_grad_mode_is_enabled` says.
    fn aoti_torch_grad_mode_set_enabled(enabled: bool) -> () = (); {
        ENABLED.set(enabled);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_flag() {
        assert!(aoti_torch_grad_mode_is_enabled());
        aoti_torch_grad_mode_set_enabled(false);
        assert!(!aoti_torch_grad_mode_is_enabled());
        std::thread::spawn(|| assert!(aoti_torch_grad_mode_is_enabled())).join().unwrap();
        aoti_torch_grad_mode_set_enabled(true);
    }
}
