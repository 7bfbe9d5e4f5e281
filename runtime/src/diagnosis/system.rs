//! What the machine is, for reports.

use crate::device::host::system_text;

/// Names and values: the system, its version, the processor.
pub fn facts() -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        all.extend(value.filter(|v| !v.is_empty()).map(|value| (name.to_owned(), value)));
    };
    add("system", Some(format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)));
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let pretty = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    add("version", pretty.map(|name| name.trim_matches('"').to_owned()));
    for (name, key) in [
        ("version", c"kern.osproductversion"),
        ("build", c"kern.osversion"),
        ("model", c"hw.model"),
        ("processor", c"machdep.cpu.brand_string"),
    ] {
        add(name, system_text(key));
    }
    all
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_system_comes_first() {
        let facts = super::facts();
        assert_eq!(facts[0].0, "system");
        assert!(facts[0].1.contains(std::env::consts::ARCH), "{facts:?}");
    }
}
