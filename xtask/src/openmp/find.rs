//! Which OpenMP there is, in the order in which it should be taken.
//!
//! A process that holds PyTorch holds its OpenMP too, so that one comes first; then Homebrew's,
//! then the compiler's own, then the system's.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Flavour;
use crate::audit::contents::Contents;
use crate::audit::image::Format;
use crate::audit::machine::Machine;
use crate::audit::target::Target;
use crate::environment::Environment;
use crate::preset::link::{Link, Openmp};
use crate::process::Invocation;
use crate::torch::Torch;

/// Names of the library on Apple systems and on Linux.
const APPLE_NAMES: [&str; 2] = ["libomp.dylib", "libiomp5.dylib"];
const LINUX_NAMES: [&str; 5] =
    ["libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so", "libgomp.so"];

/// Who brings a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The preset names it.
    Preset,
    /// PyTorch.
    Torch,
    /// Homebrew.
    Homebrew,
    /// The C++ compiler.
    Compiler,
    /// The system.
    System,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Preset => "the preset's",
            Source::Torch => "the one of the torch in use",
            Source::Homebrew => "Homebrew's",
            Source::Compiler => "the compiler's",
            Source::System => "the system's",
        })
    }
}

/// One copy of OpenMP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// Where it is.
    pub path: PathBuf,
    /// Who brings it.
    pub source: Source,
    /// Whose it is.
    pub flavour: Flavour,
    /// The name by which programs load it.
    pub install_name: Option<String>,
    /// Its processors.
    pub architectures: Vec<String>,
    /// Why it cannot be taken.
    pub refused: Option<String>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Search {
    /// Every copy, in the order in which they are taken.
    pub candidates: Vec<Candidate>,
    /// The one that is taken.
    pub chosen: Option<usize>,
    /// Why, for people.
    pub reason: String,
    /// That two copies would be in one process, if so.
    pub clash: Option<String>,
}

impl Search {
    /// The copy that is taken.
    pub fn chosen(&self) -> Option<&Candidate> {
        self.candidates.get(self.chosen?)
    }

    /// Folders for the search path of what is built, so that it finds the copy that is taken.
    pub fn rpaths(&self) -> Vec<String> {
        let folder = self.chosen().and_then(|c| c.path.parent());
        folder.map(|folder| folder.display().to_string()).into_iter().collect()
    }
}

/// Where to look.
#[derive(Debug, Clone)]
pub struct Places<'a> {
    /// What it is for.
    pub target: &'a Target,
    /// The PyTorch in use.
    pub torch: Option<&'a Torch>,
    /// Where Homebrew may be.
    pub homebrew: Vec<PathBuf>,
    /// The C++ compiler, which is asked.
    pub compiler: Option<&'a Path>,
    /// The system's folders of libraries.
    pub system: Vec<PathBuf>,
}

impl Places<'_> {
    /// Homebrew's folders on Macs, for arm64 and for x86-64.
    pub fn usual_homebrew() -> Vec<PathBuf> {
        vec!["/opt/homebrew".into(), "/usr/local".into()]
    }

    fn names(&self) -> &'static [&'static str] {
        if self.target.format == Format::MachO { &APPLE_NAMES } else { &LINUX_NAMES }
    }

    /// Every file that may be one, in order, once.
    fn files(&self, wanted: &Openmp) -> Vec<(Source, PathBuf)> {
        let mut files = Vec::new();
        if let Openmp::Path(path) = wanted {
            files.push((Source::Preset, path.clone()));
        }
        for folder in self.torch.map(Torch::library_folders).unwrap_or_default() {
            files.extend(libraries(&folder).into_iter().map(|file| (Source::Torch, file)));
        }
        if self.target.format == Format::MachO {
            for brew in &self.homebrew {
                let folder = brew.join("opt/libomp/lib");
                files.extend(self.names().iter().map(|name| (Source::Homebrew, folder.join(name))));
            }
        }
        if let Some(compiler) = self.compiler {
            let asked = self.names().iter().filter_map(|name| of_compiler(compiler, name));
            files.extend(asked.map(|file| (Source::Compiler, file)));
        }
        for folder in &self.system {
            files.extend(self.names().iter().map(|name| (Source::System, folder.join(name))));
        }
        let mut seen = BTreeSet::new();
        files.retain(|(_, file)| file.canonicalize().is_ok_and(|file| seen.insert(file)));
        files
    }
}

/// OpenMP libraries in a folder: wheels add hashes to their names.
fn libraries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| Flavour::of(&path.to_string_lossy()).is_some())
        .collect();
    files.sort();
    files
}

/// The compiler says the name again where it knows no file.
fn of_compiler(compiler: &Path, name: &str) -> Option<PathBuf> {
    let asked = Invocation::new(compiler).arg(format!("-print-file-name={name}")).read().ok()?;
    let path = PathBuf::from(asked.trim());
    path.is_absolute().then_some(path)
}

/// Looks on this machine for the OpenMP that the preset wants.
pub fn search(environment: &Environment, target: &Target, cxx: &Path, link: &Link) -> Search {
    let torch = Torch::find(environment);
    let machine = Machine::current();
    let native = machine.format == target.format && machine.architecture == target.architecture;
    let places = Places {
        target,
        torch: torch.as_ref(),
        homebrew: Places::usual_homebrew(),
        compiler: native.then_some(cxx),
        system: if native { machine.folders } else { Vec::new() },
    };
    find(&places, link.openmp())
}

/// Looks for OpenMP as the preset wants it.
pub fn find(places: &Places<'_>, wanted: &Openmp) -> Search {
    let candidates: Vec<_> = places
        .files(wanted)
        .into_iter()
        .map(|(source, path)| look_at(source, path, places.target))
        .collect();
    let takes = |source: Source| match wanted {
        Openmp::Auto => true,
        Openmp::Torch => source == Source::Torch,
        Openmp::Homebrew => source == Source::Homebrew,
        Openmp::Path(_) => source == Source::Preset,
        Openmp::Off => false,
    };
    let fit = |c: &Candidate| c.refused.is_none() && takes(c.source);
    let chosen = candidates.iter().position(fit);
    let mut search = Search { candidates, chosen, ..Search::default() };
    search.reason = reason(&search, wanted, places);
    search.clash = clash(&search);
    search
}

fn look_at(source: Source, path: PathBuf, target: &Target) -> Candidate {
    let flavour = Flavour::of(&path.to_string_lossy()).unwrap_or(Flavour::Llvm);
    let mut candidate = Candidate {
        flavour,
        source,
        install_name: None,
        architectures: Vec::new(),
        refused: None,
        path,
    };
    let bytes = std::fs::read(&candidate.path).map_err(anyhow::Error::from);
    let read = bytes.and_then(|bytes| {
        let pieces = Contents::read(&bytes)?.pieces;
        let images = pieces.into_iter().map(|piece| piece.image);
        Ok(images.filter(|image| image.is_linked()).collect::<Vec<_>>())
    });
    match read {
        Err(error) => candidate.refused = Some(format!("{error:#}")),
        Ok(images) => {
            candidate.architectures = images.iter().map(|i| i.architecture.clone()).collect();
            candidate.install_name = images.iter().find_map(|image| image.name.clone());
            let fits = images
                .iter()
                .any(|i| i.format == target.format && i.architecture == target.architecture);
            if !fits {
                let architectures = candidate.architectures.join(", ");
                candidate.refused =
                    Some(format!("it is for {architectures}, not for {}", target.triple));
            }
        }
    }
    candidate
}

fn reason(search: &Search, wanted: &Openmp, places: &Places<'_>) -> String {
    let asked = match wanted {
        Openmp::Auto => "the first that there is",
        Openmp::Torch => "that of the torch in use",
        Openmp::Homebrew => "Homebrew's",
        Openmp::Path(_) => "the one that the preset names",
        Openmp::Off => return "the preset wants none".to_owned(),
    };
    match search.chosen() {
        Some(chosen) => format!("the preset wants {asked}: it is {}", chosen.source),
        None if matches!(wanted, Openmp::Torch) && places.torch.is_none() => {
            "the preset wants that of the torch in use, but there is no torch: activate its \
             environment, or choose another with `[link] openmp`"
                .to_owned()
        }
        None => format!(
            "the preset wants {asked}, and there is none for {}: models that use OpenMP will not \
             load",
            places.target.triple
        ),
    }
}

/// Torch loads its own copy: what is built must not bring another of the kind that minds.
fn clash(search: &Search) -> Option<String> {
    let chosen = search.chosen()?;
    let mut fit = search.candidates.iter().filter(|c| c.refused.is_none());
    let torch = fit.find(|c| c.source == Source::Torch)?;
    let minds = |c: &Candidate| c.flavour != Flavour::Gnu;
    let same = chosen.path.canonicalize().ok() == torch.path.canonicalize().ok();
    // A library that is loaded already under this name is not loaded again.
    let same_name = chosen.install_name.is_some()
        && chosen.install_name == torch.install_name
        && chosen.install_name.as_deref().is_some_and(|name| !name.starts_with('/'));
    (!same && !same_name && minds(chosen) && minds(torch)).then(|| {
        format!(
            "a process with this torch would hold {} and {}, which ends with OMP: Error #15: set \
             `[link] openmp = \"torch\"`",
            torch.path.display(),
            chosen.path.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, MAC};

    const OPENMP: &str = "extern \"C\" void __kmpc_fork_call() {}";

    /// A machine's folders, with copies of OpenMP where Macs have them.
    struct Mac {
        lab: Lab,
        torch: Torch,
    }

    impl Mac {
        fn new() -> Self {
            let lab = Lab::new();
            std::fs::create_dir_all(lab.at("torch/lib")).unwrap();
            let torch = Torch::at(&lab.at("torch")).unwrap();
            Self { lab, torch }
        }

        fn library(&self, target: &str, path: &str, name: &str) {
            let name = format!("-Wl,-install_name,{name}");
            self.lab.apple(target, path, OPENMP, &["-dynamiclib", &name]);
        }

        fn find(&self, wanted: &Openmp, triple: &str) -> Search {
            let target = Target::parse(triple).unwrap();
            let places = Places {
                target: &target,
                torch: Some(&self.torch),
                homebrew: vec![self.lab.at("brew"), self.lab.at("intel-brew")],
                compiler: None,
                system: Vec::new(),
            };
            find(&places, wanted)
        }

        fn told(&self, search: &Search) -> String {
            self.lab.shown(&crate::why::text(&[&crate::why::openmp(search)]))
        }
    }

    const APPLE: &str = "aarch64-apple-darwin";

    #[test]
    fn torch_comes_before_homebrew_and_the_wrong_processor_does_not_count() {
        let mac = Mac::new();
        mac.library("x86_64-apple-macos14.0", "torch/lib/libomp.dylib", "/opt/omp/libomp.dylib");
        mac.library(MAC, "torch/.dylibs/libomp.dylib", "@rpath/libomp.dylib");
        mac.library(MAC, "brew/opt/libomp/lib/libomp.dylib", "/opt/homebrew/lib/libomp.dylib");
        let search = mac.find(&Openmp::Auto, APPLE);
        insta::assert_snapshot!("openmp_auto", mac.told(&search));
        assert_eq!(search.rpaths(), [mac.lab.at("torch/.dylibs").display().to_string()]);
        assert_eq!(search.clash, None);
        let intel = mac.find(&Openmp::Auto, "x86_64-apple-darwin");
        assert_eq!(intel.chosen().unwrap().path, mac.lab.at("torch/lib/libomp.dylib"));
    }

    #[test]
    fn another_copy_than_torchs_is_taken_with_a_warning() {
        let mac = Mac::new();
        mac.library(MAC, "torch/lib/libomp.dylib", "@rpath/libomp.dylib");
        mac.library(MAC, "intel-brew/opt/libomp/lib/libomp.dylib", "/usr/local/lib/libomp.dylib");
        let search = mac.find(&Openmp::Homebrew, APPLE);
        assert_eq!(search.chosen().unwrap().source, Source::Homebrew);
        let clash = mac.lab.shown(search.clash.as_deref().unwrap());
        assert!(clash.contains("LAB/torch/lib/libomp.dylib and LAB/intel-brew/"), "{clash}");
        assert!(mac.told(&search).contains("  but beware: a process with this torch"));
        let named = Openmp::Path(mac.lab.at("torch/lib/libomp.dylib"));
        let search = mac.find(&named, APPLE);
        assert_eq!((search.chosen().unwrap().source, &search.clash), (Source::Preset, &None));
    }

    #[test]
    fn where_there_is_none_it_is_said() {
        let mac = Mac::new();
        std::fs::write(mac.lab.at("torch/lib/libomp.dylib"), "cut off").unwrap();
        let search = mac.find(&Openmp::Auto, APPLE);
        assert_eq!((search.chosen(), search.rpaths()), (None, Vec::new()));
        assert!(search.candidates[0].refused.is_some(), "{search:?}");
        assert!(search.reason.contains("there is none for aarch64-apple-darwin"), "{search:?}");
        let off = mac.find(&Openmp::Off, APPLE);
        assert_eq!((off.chosen(), off.reason.as_str()), (None, "the preset wants none"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn wheels_hashes_and_the_compilers_own_are_found_on_linux() {
        let lab = Lab::new();
        std::fs::create_dir_all(lab.at("torch/lib")).unwrap();
        let args = ["-shared", "-Wl,-soname,libgomp-a34b3233.so.1"];
        lab.native("torch.libs/libgomp-a34b3233.so.1", OPENMP, &args);
        lab.native("compiler/libgomp.so.1", OPENMP, &["-shared", "-Wl,-soname,libgomp.so.1"]);
        let compiler = lab.at("c++");
        let found = lab.at("compiler/libgomp.so.1");
        let script = format!(
            "#!/bin/sh\ncase $1 in *libgomp.so.1) echo {};; *) echo \"${{1#*=}}\";; esac\n",
            found.display()
        );
        std::fs::write(&compiler, script).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&compiler, std::fs::Permissions::from_mode(0o755)).unwrap();
        let target = Target::parse(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH));
        let (target, torch) = (target.unwrap(), Torch::at(&lab.at("torch")).unwrap());
        let mut places = Places {
            target: &target,
            torch: Some(&torch),
            homebrew: Vec::new(),
            compiler: Some(&compiler),
            system: Vec::new(),
        };
        let search = find(&places, &Openmp::Auto);
        let chosen = search.chosen().unwrap();
        assert_eq!((chosen.source, chosen.flavour), (Source::Torch, Flavour::Gnu));
        assert_eq!(chosen.install_name.as_deref(), Some("libgomp-a34b3233.so.1"));
        places.torch = None;
        let search = find(&places, &Openmp::Auto);
        assert_eq!(search.chosen().unwrap().path, found);
        assert_eq!(search.chosen().unwrap().source, Source::Compiler);
        assert!(find(&places, &Openmp::Torch).reason.contains("but there is no torch"));
    }
}
