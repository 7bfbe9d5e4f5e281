//! One loaded model: its library, its weights, its AOTInductor container.

pub mod audit;
mod dl;
mod elf;
#[cfg(test)]
mod fixture;
mod image;
mod library;
mod macho;
mod patch;
mod payload;
mod thread_exit;
