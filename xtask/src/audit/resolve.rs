//! What a file would load: its libraries and theirs, found as the system's loader finds them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::contents::{Contents, Piece};
use super::image::{Format, Image};
use super::machine::{Machine, is_system};

/// A process with more libraries than this is not followed further.
const MOST_LIBRARIES: usize = 1000;

/// Where a library was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// In this file.
    File(PathBuf),
    /// It belongs to the system.
    System,
    /// Nowhere, though everywhere was looked: here.
    Missing(Vec<String>),
    /// Only for another processor.
    WrongArchitecture(PathBuf, String),
    /// That cannot be told on this machine, for this reason.
    Unknown(String),
}

/// One edge of the tree of libraries.
#[derive(Debug, Clone)]
pub struct Edge {
    /// The file that loads it.
    pub by: String,
    /// The name under which it is looked for.
    pub name: String,
    /// Whether the file loads without it.
    pub weak: bool,
    /// Where it was found.
    pub found: Found,
    /// Whether the audited file itself loads it.
    pub direct: bool,
}

/// Everything that a file would load.
#[derive(Debug, Default)]
pub struct Closure {
    /// Every library that is named, in the order of loading.
    pub edges: Vec<Edge>,
    /// The libraries that were found, by path.
    pub images: Vec<(PathBuf, Rc<Image>)>,
}

impl Closure {
    /// The image that was found under `path`.
    pub fn image(&self, path: &Path) -> Option<&Rc<Image>> {
        self.images.iter().find(|(p, _)| p == path).map(|(_, image)| image)
    }

    /// The edges from the audited file itself, in its order.
    pub fn direct(&self) -> impl Iterator<Item = &Edge> {
        self.edges.iter().filter(|edge| edge.direct)
    }

    /// Whether everything was found, so that what is not in it is nowhere.
    pub fn is_whole(&self) -> bool {
        self.edges
            .iter()
            .all(|edge| edge.weak || matches!(edge.found, Found::File(_) | Found::System))
    }
}

/// Reads each library once.
type Known = HashMap<PathBuf, Result<Rc<Vec<Image>>, String>>;

/// Finds libraries.
#[derive(Debug)]
pub struct Resolver<'a> {
    machine: &'a Machine,
    /// The program that will load the file, for `@executable_path`.
    executable: Option<&'a Path>,
    known: Known,
}

/// A search path with the folder that its `@loader_path` or `$ORIGIN` stands for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Rpath {
    text: String,
    origin: Option<PathBuf>,
}

/// A file whose libraries are to be found.
struct Pending {
    shown: String,
    folder: Option<PathBuf>,
    image: Rc<Image>,
    inherited: Vec<Rpath>,
    direct: bool,
}

impl<'a> Resolver<'a> {
    /// A resolver for the loader of `machine`.
    pub fn new(machine: &'a Machine, executable: Option<&'a Path>) -> Self {
        Self { machine, executable, known: HashMap::new() }
    }

    /// Everything that `piece` of the file at `path` would load.
    pub fn closure(&mut self, path: &Path, piece: &Piece<'_>) -> Closure {
        let folder = if piece.embedded { None } else { folder_of(path) };
        let mut closure = Closure::default();
        let mut names: HashSet<String> = HashSet::new();
        let mut files: HashSet<PathBuf> = HashSet::new();
        let mut todo = VecDeque::from([Pending {
            shown: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            folder,
            image: Rc::new(piece.image.clone()),
            inherited: Vec::new(),
            direct: true,
        }]);
        while let Some(pending) = todo.pop_front() {
            let own = pending.rpaths();
            let rpaths: Vec<_> = own.iter().chain(&pending.inherited).cloned().collect();
            for library in &pending.image.libraries {
                if closure.edges.len() >= MOST_LIBRARIES {
                    break;
                }
                // ELF loaders take a library that is there already, by its name.
                let again =
                    pending.image.format == Format::Elf && !names.insert(library.name.clone());
                if again && !pending.direct {
                    continue;
                }
                let found = self.find(&library.name, &pending, &rpaths);
                if let Found::File(file) = &found
                    && files.insert(file.clone())
                    && let Some(image) = self.read(file, &pending.image)
                {
                    closure.images.push((file.clone(), Rc::clone(&image)));
                    todo.push_back(Pending {
                        shown: file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                        folder: folder_of(file),
                        image,
                        inherited: if pending.image.rpaths_are_inherited {
                            rpaths.clone()
                        } else {
                            Vec::new()
                        },
                        direct: false,
                    });
                }
                closure.edges.push(Edge {
                    by: pending.shown.clone(),
                    name: library.name.clone(),
                    weak: library.weak,
                    found,
                    direct: pending.direct,
                });
            }
        }
        closure
    }

    /// The folder that the search path `text` of `piece` stands for, as far as that can be told.
    pub fn folder(&self, path: &Path, piece: &Piece<'_>, text: &str) -> Option<PathBuf> {
        let origin = if piece.embedded { None } else { folder_of(path) };
        self.expand(&Rpath { text: text.to_owned(), origin })
    }

    fn read(&mut self, file: &Path, like: &Image) -> Option<Rc<Image>> {
        let images = self.images(file).ok()?;
        let fit = images.iter().find(|image| fits(image, like))?;
        Some(Rc::new(fit.clone()))
    }

    fn images(&mut self, file: &Path) -> Result<Rc<Vec<Image>>, String> {
        if let Some(known) = self.known.get(file) {
            return known.clone();
        }
        let read = std::fs::read(file).map_err(|error| error.to_string()).and_then(|bytes| {
            let contents = Contents::read(&bytes).map_err(|error| format!("{error:#}"))?;
            Ok(Rc::new(contents.pieces.into_iter().map(|piece| piece.image).collect()))
        });
        self.known.insert(file.to_owned(), read.clone());
        read
    }

    fn find(&mut self, name: &str, pending: &Pending, rpaths: &[Rpath]) -> Found {
        match pending.image.format {
            Format::Elf => self.find_elf(name, pending, rpaths),
            Format::MachO => self.find_macho(name, pending, rpaths),
        }
    }

    fn find_elf(&mut self, name: &str, pending: &Pending, rpaths: &[Rpath]) -> Found {
        let native = self.machine.loads(&pending.image);
        let mut places = Vec::new();
        let mut unsure = false;
        if name.contains('/') {
            places.push(PathBuf::from(name));
        } else {
            for rpath in rpaths {
                match self.expand(rpath) {
                    Some(folder) => places.push(folder.join(name)),
                    None => unsure = true,
                }
            }
            if native {
                places.extend(self.machine.folders.iter().map(|folder| folder.join(name)));
            }
        }
        match self.first(&places, &pending.image) {
            Found::Missing(_) if is_system(Format::Elf, name) && !native => Found::System,
            Found::Missing(_) if unsure => {
                Found::Unknown("a search path is relative to a folder that is not known".to_owned())
            }
            Found::Missing(_) if !native => Found::Unknown(self.foreign()),
            found => found,
        }
    }

    fn find_macho(&mut self, name: &str, pending: &Pending, rpaths: &[Rpath]) -> Found {
        if is_system(Format::MachO, name) {
            return Found::System;
        }
        let on_mac = self.machine.format == Format::MachO;
        let own = Rpath { text: name.to_owned(), origin: pending.folder.clone() };
        let mut unsure = false;
        let mut places = Vec::new();
        if let Some(rest) = name.strip_prefix("@rpath/") {
            for rpath in rpaths {
                let folder = self.expand(rpath);
                unsure |= folder.is_none() || (rpath.text.starts_with('/') && !on_mac);
                places.extend(folder.map(|folder| folder.join(rest)));
            }
        } else {
            let place = self.expand(&own);
            unsure = place.is_none() || (name.starts_with('/') && !on_mac);
            places.extend(place);
        }
        match self.first(&places, &pending.image) {
            Found::Missing(_) if unsure && on_mac => Found::Unknown(
                "a search path is relative to a program that is not known".to_owned(),
            ),
            Found::Missing(_) if unsure => Found::Unknown(self.foreign()),
            found => found,
        }
    }

    fn foreign(&self) -> String {
        format!(
            "it would be looked for in folders of its own system; this is {}",
            self.machine.shown()
        )
    }

    /// The first of `places` that holds a library for the processor of `like`.
    fn first(&mut self, places: &[PathBuf], like: &Image) -> Found {
        let mut wrong = None;
        let mut seen = HashSet::new();
        let places: Vec<_> = places.iter().filter(|place| seen.insert(*place)).collect();
        for place in &places {
            let Ok(file) = place.canonicalize() else { continue };
            // What a damaged file names may be a device, which has no end.
            if !file.is_file() {
                continue;
            }
            let Ok(images) = self.images(&file) else { continue };
            if images.iter().any(|image| fits(image, like)) {
                return Found::File(file);
            }
            if wrong.is_none() {
                let names: Vec<_> = images
                    .iter()
                    .map(|image| format!("{} {}", image.format, image.architecture))
                    .collect();
                wrong = Some(Found::WrongArchitecture(file, names.join(", ")));
            }
        }
        let looked = || places.iter().map(|place| place.display().to_string()).collect();
        wrong.unwrap_or_else(|| Found::Missing(looked()))
    }

    fn expand(&self, rpath: &Rpath) -> Option<PathBuf> {
        let origin = || rpath.origin.clone();
        let program = || self.executable.and_then(folder_of);
        let text = &rpath.text;
        let bases: [(&str, &dyn Fn() -> Option<PathBuf>); 4] = [
            ("$ORIGIN", &origin),
            ("${ORIGIN}", &origin),
            ("@loader_path", &origin),
            ("@executable_path", &program),
        ];
        for (prefix, base) in bases {
            if let Some(rest) = text.strip_prefix(prefix) {
                return Some(base()?.join(rest.trim_start_matches('/')));
            }
        }
        // Other words with a dollar stand for things of the machine that loads it.
        (!text.contains('$') && !text.starts_with('@')).then(|| PathBuf::from(text))
    }
}

impl Pending {
    fn rpaths(&self) -> Vec<Rpath> {
        let rpath = |text: &String| Rpath { text: text.clone(), origin: self.folder.clone() };
        self.image.rpaths.iter().map(rpath).collect()
    }
}

/// Whether a process of `like` can load `image`.
fn fits(image: &Image, like: &Image) -> bool {
    // Processes of arm64 take arm64 libraries; those for arm64e are the system's.
    image.format == like.format && image.architecture == like.architecture
}

fn folder_of(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    path.parent().map(Path::to_owned)
}
