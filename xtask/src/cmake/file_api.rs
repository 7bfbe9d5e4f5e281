//! CMake's File API: what a configured build folder makes, from CMake itself.
//!
//! A query file has to lie in the folder when CMake configures it; the reply then names every
//! target with its artefacts. Manual: `cmake-file-api(7)`, object kind `codemodel` version 2.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::steps::Action;

/// The client's name in query and reply.
const CLIENT: &str = "client-etmetal";

/// The actions that ask; they have to come before CMake configures `build`.
pub fn query(build: &Path) -> Vec<Action> {
    let folder = build.join(".cmake/api/v1/query").join(CLIENT);
    let query = r#"{"requests":[{"kind":"codemodel","version":2}]}"#;
    vec![
        Action::MakeFolder(folder.clone()),
        Action::Write(folder.join("query.json"), query.to_owned()),
    ]
}

/// The targets of a build folder, in one configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Every target that makes something.
    pub targets: Vec<Target>,
}

/// One target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its name in CMake.
    pub name: String,
    /// `EXECUTABLE`, `SHARED_LIBRARY`, `STATIC_LIBRARY`, …
    pub kind: String,
    /// The files that it makes, with their whole paths; the main one first.
    pub artifacts: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct Index {
    reply: std::collections::BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    kind: String,
    json_file: Option<String>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Codemodel {
    paths: Paths,
    configurations: Vec<Configuration>,
}

#[derive(Deserialize)]
struct Paths {
    build: PathBuf,
}

#[derive(Deserialize)]
struct Configuration {
    targets: Vec<TargetReference>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TargetReference {
    json_file: String,
}

#[derive(Deserialize)]
struct TargetReply {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    artifacts: Vec<Artifact>,
}

#[derive(Deserialize)]
struct Artifact {
    path: PathBuf,
}

impl Model {
    /// Reads the reply in the build folder `build`.
    ///
    /// # Errors
    /// The folder was not configured with [`query`], or CMake's reply cannot be read.
    pub fn read(build: &Path) -> Result<Self> {
        let reply = build.join(".cmake/api/v1/reply");
        Self::read_reply(&reply)
            .with_context(|| format!("cannot read CMake's reply in {}", reply.display()))
    }

    fn read_reply(reply: &Path) -> Result<Self> {
        let index: Index = json(&newest_index(reply)?)?;
        let responses = index.reply.get(CLIENT).and_then(|client| client.get("query.json"));
        let responses = responses.and_then(|query| query.get("responses"));
        let responses = responses.context("it does not answer this program's query")?;
        let responses: Vec<Response> = serde_json::from_value(responses.clone())?;
        let codemodel = responses.into_iter().find(|r| r.kind == "codemodel" || r.error.is_some());
        let codemodel = codemodel.context("it holds no codemodel")?;
        ensure!(codemodel.error.is_none(), "{}", codemodel.error.unwrap_or_default());
        let file = codemodel.json_file.context("the codemodel is in no file")?;
        let codemodel: Codemodel = json(&reply.join(file))?;
        // One configuration, as the generators in use have; else the first.
        let configuration =
            codemodel.configurations.first().context("there is no configuration")?;
        let mut targets = Vec::new();
        for reference in &configuration.targets {
            let target: TargetReply = json(&reply.join(&reference.json_file))?;
            if target.artifacts.is_empty() {
                continue;
            }
            targets.push(Target {
                name: target.name,
                kind: target.kind,
                artifacts: target
                    .artifacts
                    .into_iter()
                    .map(|artifact| codemodel.paths.build.join(artifact.path))
                    .collect(),
            });
        }
        Ok(Self { targets })
    }

    /// The target `name`.
    pub fn target(&self, name: &str) -> Option<&Target> {
        self.targets.iter().find(|target| target.name == name)
    }
}

/// The index that counts: that of the last name, as the manual says.
fn newest_index(reply: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(reply).context("the folder is not there")?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let newest = names.filter(|name| name.starts_with("index-") && name.ends_with(".json")).max();
    Ok(reply.join(newest.context("there is no index")?))
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let context = || format!("{}", path.display());
    let bytes = std::fs::read(path).with_context(context)?;
    serde_json::from_slice(&bytes).with_context(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        std::fs::write(folder.join(".cmake/api/v1/reply").join(name), text).unwrap();
    }

    fn index(file: &str) -> String {
        format!(
            r#"{{"reply":{{"{CLIENT}":{{"query.json":{{"responses":[
                {{"kind":"codemodel","version":{{"major":2}},"jsonFile":"{file}"}}]}}}}}}}}"#
        )
    }

    #[test]
    fn the_newest_index_counts_and_artefacts_lie_in_the_build_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join(".cmake/api/v1/reply")).unwrap();
        let write = |name: &str, text: &str| write(folder.path(), name, text);
        write("index-2025-01-01T00-00-00-0000.json", &index("gone.json"));
        write("index-2026-01-01T00-00-00-0000.json", &index("codemodel.json"));
        write(
            "codemodel.json",
            r#"{"paths":{"build":"/b","source":"/s"},"configurations":[{"targets":[
                {"jsonFile":"a.json"},{"jsonFile":"b.json"}]}]}"#,
        );
        write(
            "a.json",
            r#"{"name":"etmetal","type":"SHARED_LIBRARY","artifacts":[{"path":"lib/libetmetal.so"}]}"#,
        );
        write("b.json", r#"{"name":"docs","type":"UTILITY"}"#);
        let model = Model::read(folder.path()).unwrap();
        let etmetal = model.target("etmetal").unwrap();
        assert_eq!(etmetal.artifacts, [PathBuf::from("/b/lib/libetmetal.so")]);
        assert_eq!(model.targets.len(), 1, "what makes nothing is no target of interest");
    }

    #[test]
    fn a_reply_that_is_missing_or_to_someone_else_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let error = |folder: &Path| format!("{:#}", Model::read(folder).unwrap_err());
        assert!(error(folder.path()).contains("the folder is not there"));
        std::fs::create_dir_all(folder.path().join(".cmake/api/v1/reply")).unwrap();
        assert!(error(folder.path()).ends_with("there is no index"));
        write(folder.path(), "index-1.json", r#"{"reply":{}}"#);
        assert!(error(folder.path()).ends_with("it does not answer this program's query"));
        write(folder.path(), "index-2.json", "{");
        assert!(error(folder.path()).contains("index-2.json"));
    }
}
