//! Why the build is as it is, for `cargo xtask why`.

use anyhow::Result;

use super::Facts;
use crate::openmp;
use crate::toolchain::msl::{self, MslCompiler};
use crate::why::{self, Decision, Record};

/// Records why the build is as it is.
///
/// # Errors
/// The file system refuses.
pub(super) fn record(facts: &Facts, anew: bool) -> Result<()> {
    let (state, preset) = (facts.workspace.state(), &facts.preset);
    let (name, triple) = (&preset.identity.name, &facts.target.triple);
    let settings = why::settings(preset);
    // Looking for OpenMP takes longer than everything else that a build with nothing to do does.
    let known = Record::load(&Record::of(&state, name, triple)).ok();
    let known = known.filter(|record| !anew && record.settings().eq(&settings));
    if let Some(record) = known {
        return record.store(&state);
    }
    let link = &preset.link;
    let search = || openmp::find::search(&facts.environment, &facts.target, &facts.cxx, link);
    let openmp = facts.openmp.clone().unwrap_or_else(search);
    let mut decisions = vec![
        why::compiler(&facts.environment, preset, &facts.cxx),
        facts.why_shaders(),
        facts.why_python(),
        why::openmp(&openmp),
    ];
    decisions.extend(settings);
    let audit = facts.workspace.audit_record(name, triple);
    Record { preset: name.clone(), triple: triple.clone(), audit, decisions }.store(&state)
}

impl Facts {
    fn why_python(&self) -> Decision {
        let because = match self.environment.get("ETMETAL_PYTHON") {
            Some(named) => format!("the environment says ETMETAL_PYTHON={}", named.display()),
            None => "it is the first in PATH that ExecuTorch's wheel is made for and that has \
                     venv, which ETMETAL_PYTHON could override"
                .into(),
        };
        let base = self.venv.base();
        let choice = format!("{} ({})", base.path.display(), base.version);
        Decision::new("python", choice, because)
    }

    fn why_shaders(&self) -> Decision {
        match &self.clang {
            Some(MslCompiler::Clang(tool)) => {
                let because = match self.environment.get("ETMETAL_CLANG") {
                    Some(named) => {
                        format!("the environment says ETMETAL_CLANG={}", named.display())
                    }
                    None => {
                        "it is the newest clang in PATH, which ETMETAL_CLANG could override".into()
                    }
                };
                Decision::new("shaders", tool.path.display(), because)
            }
            Some(MslCompiler::Zig(_)) | None => Decision::new(
                "shaders",
                "zig's clang",
                format!("this machine has no clang that is {} or newer", msl::OLDEST),
            ),
        }
    }
}
