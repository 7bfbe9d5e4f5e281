//! An archive of a finished stage as it is, for machines like this one (`package.archive`).

use super::VERSION;
use crate::cmake::CmakeBuild;
use crate::preset::package::Archive;
use crate::stage::Stage;
use crate::steps::{Action, Input, Step};

/// The step that packs `stage` into `target/package`, in one folder of the archive's name.
pub fn step(build: &CmakeBuild<'_>, stage: &Stage, archive: Archive) -> Step {
    let preset = build.rust.preset;
    let folder = build.rust.workspace.target.join("package");
    let name = format!("etmetal-{VERSION}-{}-{}", preset.identity.name, preset.target);
    let file = folder.join(format!("{name}.{}", archive.extension()));
    let new = folder.join(format!("{name}.new"));
    let copy = folder.join(&name);
    let tar = build.cmake().cwd(&folder).args(["-E", "tar"]);
    let tar = match archive {
        Archive::TarGz => tar.arg("czf").arg(&new).arg("--format=gnutar"),
        Archive::TarZst => tar.arg("cf").arg(&new).args(["--format=gnutar", "--zstd"]),
        Archive::Zip => tar.arg("cf").arg(&new).arg("--format=zip"),
    };
    Step {
        name: "Package",
        key: build.key("package"),
        inputs: vec![Input::Step(build.key("stage"))],
        actions: vec![
            Action::MakeFolder(folder),
            Action::Remove(copy.clone()),
            Action::Run(build.cmake().args(["-E", "copy_directory"]).arg(stage.root()).arg(&copy)),
            Action::Run(tar.arg("--").arg(&name)),
            Action::Run(build.cmake().args(["-E", "rename"]).arg(&new).arg(&file)),
            Action::Remove(copy),
        ],
        outputs: vec![file.into()],
        hint: "see the log; is the disk full?".to_owned(),
    }
}
