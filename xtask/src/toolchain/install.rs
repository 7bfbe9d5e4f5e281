//! The command that installs what is missing, on this machine.

use std::path::Path;

/// Who installs packages here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installer {
    /// Debian, Ubuntu and their kin.
    Apt,
    /// Fedora, RHEL and their kin.
    Dnf,
    /// Arch and its kin.
    Pacman,
    /// openSUSE.
    Zypper,
    /// macOS: Apple's tools from Xcode, others from Homebrew.
    Mac,
    /// Something else.
    Unknown,
}

/// A thing that can be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Package {
    /// Python with its `venv` module.
    Python,
    /// A C++ compiler.
    Cxx,
    /// A clang for shaders.
    Clang,
    /// LLVM's linkers.
    Lld,
    /// git.
    Git,
}

impl Installer {
    /// This machine's.
    pub fn detect() -> Self {
        if cfg!(target_os = "macos") {
            return Installer::Mac;
        }
        let release = std::fs::read_to_string(Path::new("/etc/os-release")).unwrap_or_default();
        Self::from_os_release(&release)
    }

    /// The one of the system that `/etc/os-release` describes.
    pub fn from_os_release(text: &str) -> Self {
        let ids = text
            .lines()
            .filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")))
            .flat_map(|value| value.trim_matches('"').split_whitespace());
        for id in ids {
            match id {
                "debian" | "ubuntu" => return Installer::Apt,
                "fedora" | "rhel" | "centos" => return Installer::Dnf,
                "arch" => return Installer::Pacman,
                "suse" | "opensuse" => return Installer::Zypper,
                _ => {}
            }
        }
        Installer::Unknown
    }

    /// The command that installs `package`.
    pub fn command(self, package: Package) -> String {
        use Package::{Clang, Cxx, Git, Lld, Python};
        let names = match (self, package) {
            (Installer::Apt, Python) => "python3-venv",
            (Installer::Apt | Installer::Dnf | Installer::Zypper, Git) => "git",
            (Installer::Apt, Cxx) => "g++",
            // Debian 12 has 19 too, but what it calls `clang` is 14.
            (Installer::Apt, Clang) => "clang-19",
            (Installer::Apt, Lld) => "lld-19",
            (Installer::Dnf | Installer::Zypper | Installer::Pacman, Lld) => "lld",
            (Installer::Dnf | Installer::Zypper, Clang) => "clang",
            (Installer::Dnf | Installer::Zypper, Python) => "python3",
            (Installer::Dnf | Installer::Zypper, Cxx) => "gcc-c++",
            (Installer::Pacman, Python) => "python",
            (Installer::Pacman, Cxx) => "gcc",
            (Installer::Pacman, Clang) => "clang",
            (Installer::Pacman, Git) => "git",
            (Installer::Mac, Python) => return "brew install python@3.13".to_owned(),
            (Installer::Mac, Lld) => return "brew install lld".to_owned(),
            (Installer::Mac, Cxx | Clang | Git) => return "xcode-select --install".to_owned(),
            (Installer::Unknown, Python) => return "install Python 3.10 to 3.14".to_owned(),
            (Installer::Unknown, Cxx) => return "install g++ or clang++".to_owned(),
            (Installer::Unknown, Clang) => return "install clang 15 or newer".to_owned(),
            (Installer::Unknown, Lld) => return "install LLVM's linkers (lld)".to_owned(),
            (Installer::Unknown, Git) => return "install git".to_owned(),
        };
        match self {
            Installer::Apt => format!("apt-get install -y {names}"),
            Installer::Dnf => format!("dnf install -y {names}"),
            Installer::Pacman => format!("pacman -S --noconfirm {names}"),
            Installer::Zypper => format!("zypper install -y {names}"),
            Installer::Mac | Installer::Unknown => unreachable!("answered above"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_known_by_their_kin() {
        let of = Installer::from_os_release;
        assert_eq!(of("NAME=\"Debian\"\nID=debian\n"), Installer::Apt);
        assert_eq!(of("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"), Installer::Apt);
        assert_eq!(of("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n"), Installer::Dnf);
        assert_eq!(of("ID=opensuse-leap\nID_LIKE=\"suse opensuse\"\n"), Installer::Zypper);
        assert_eq!(of("ID=manjaro\nID_LIKE=arch\n"), Installer::Pacman);
        assert_eq!(of(""), Installer::Unknown);
    }

    #[test]
    fn every_system_has_a_command_for_every_package() {
        use Installer::{Apt, Dnf, Mac, Pacman, Unknown, Zypper};
        let mut lines = String::new();
        for installer in [Apt, Dnf, Pacman, Zypper, Mac, Unknown] {
            for package in
                [Package::Python, Package::Cxx, Package::Clang, Package::Lld, Package::Git]
            {
                lines += &format!("{}\n", installer.command(package));
            }
        }
        insta::assert_snapshot!(lines, @"
        apt-get install -y python3-venv
        apt-get install -y g++
        apt-get install -y clang-19
        apt-get install -y lld-19
        apt-get install -y git
        dnf install -y python3
        dnf install -y gcc-c++
        dnf install -y clang
        dnf install -y lld
        dnf install -y git
        pacman -S --noconfirm python
        pacman -S --noconfirm gcc
        pacman -S --noconfirm clang
        pacman -S --noconfirm lld
        pacman -S --noconfirm git
        zypper install -y python3
        zypper install -y gcc-c++
        zypper install -y clang
        zypper install -y lld
        zypper install -y git
        brew install python@3.13
        xcode-select --install
        xcode-select --install
        brew install lld
        xcode-select --install
        install Python 3.10 to 3.14
        install g++ or clang++
        install clang 15 or newer
        install LLVM's linkers (lld)
        install git
        ");
    }
}
