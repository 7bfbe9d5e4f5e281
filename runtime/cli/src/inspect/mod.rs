//! `etmetal inspect`: what is in a program, without running any of it.

mod contents;
mod libraries;
mod shaders;
mod text;

use std::path::{Path, PathBuf};

use etmetal::error::Context;
use etmetal::runner::Program;
use etmetal::{Error, Result};

use crate::Outcome;
use crate::inputs;
use crate::output::{self, Style};
use contents::Contents;

#[derive(clap::Args)]
pub struct Arguments {
    /// The program (.pte), or a folder with model.pte
    model: PathBuf,

    /// Write each Metal source to a file in this folder
    #[arg(long, value_name = "FOLDER")]
    dump_msl: Option<PathBuf>,

    /// Print one line for each kernel: how the host device runs it (plain, fission row, fission
    /// column, fibers), and for fibers why. Compiles those that could run as loops
    #[arg(long, conflicts_with = "json")]
    kernels: bool,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs the command. It fails if something is wrong that can be told without loading: a blob that
/// is missing or damaged, a symbol that this version lacks.
///
/// # Errors
/// The file is no program, or is damaged; a file cannot be written.
pub fn run(arguments: &Arguments) -> Result<Outcome> {
    let model = inputs::model_in(&arguments.model);
    let bytes = inputs::map(&model)?;
    let program = Program::parse(&bytes).context(|| model.display())?;
    let contents = Contents::of(&program, &model.display().to_string(), arguments.kernels);
    if let Some(folder) = &arguments.dump_msl {
        dump(&contents, folder)?;
    }
    if arguments.json {
        output::print_json(&contents)?;
    } else if arguments.kernels {
        let style = Style::of(&std::io::stdout());
        output::print(text::render_kernels(&contents, style).trim_end())?;
    } else {
        output::print(text::render(&contents, Style::of(&std::io::stdout())).trim_end())?;
    }
    Ok(if contents.has_problems() { Outcome::Failure } else { Outcome::Success })
}

/// Writes `<method>.<delegate>.mps_lib_<n>.metal` for each source.
fn dump(contents: &Contents<'_>, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .map_err(|e| Error::System(format!("cannot make {}: {e}", folder.display())))?;
    for method in &contents.methods {
        for (i, delegate) in method.delegates.iter().enumerate() {
            for shader in delegate.model.iter().flat_map(|m| &m.shaders) {
                // A method's name is any text: it must not lead out of the folder.
                let name = method.name.replace(['/', '\\', '\0'], "_");
                let path = folder.join(format!("{name}.{i}.{}.metal", shader.name));
                std::fs::write(&path, shader.source)
                    .map_err(|e| Error::System(format!("cannot write {}: {e}", path.display())))?;
            }
        }
    }
    Ok(())
}
