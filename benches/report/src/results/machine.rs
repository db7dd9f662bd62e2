//! The line that says where a measurement was made and with which versions, and as much of it as a reader wants.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    processor: String,
    cores: String,
    kernel: String,
    compiler: String,
    /// Names and versions, where there are any.
    versions: Vec<(String, String)>,
}

impl Machine {
    /// Reads `processor, 2 cores, Linux 6.18.44, rustc 1.95.0; tokio 1.54.1, tick 0.8.0`.
    pub(super) fn parse(line: &str) -> Result<Self, String> {
        let (system, versions) = line.split_once("; ").unwrap_or((line, ""));
        let mut parts: Vec<&str> = system.split(", ").collect();
        let compiler = parts.pop().filter(|part| part.starts_with("rustc "));
        let kernel = parts.pop().filter(|part| part.starts_with("Linux "));
        let cores = parts.pop().filter(|part| part.ends_with(" cores"));
        let processor = parts.join(", ");
        let (Some(compiler), Some(kernel), Some(cores), false) = (compiler, kernel, cores, processor.is_empty()) else {
            return Err(format!("the first line names no machine: {line}"));
        };
        let versions = versions.split(", ").filter_map(|part| part.rsplit_once(' '));
        Ok(Machine {
            processor,
            cores: cores.to_owned(),
            kernel: kernel.to_owned(),
            compiler: compiler.to_owned(),
            versions: versions.map(|(name, version)| (name.to_owned(), version.to_owned())).collect(),
        })
    }

    /// Processor, cores, kernel and compiler: `Intel Xeon, 2 cores, Linux 6.18, rustc 1.95`.
    pub(crate) fn system(&self) -> String {
        let [kernel, compiler] = [&self.kernel, &self.compiler].map(|text| two_places(text));
        format!("{}, {}, {kernel}, {compiler}", plain(&self.processor), self.cores)
    }

    /// The versions of some, as `tokio 1.54.1, tick 0.8.0`.
    pub(crate) fn versions(&self, names: &[&str]) -> Result<String, String> {
        let version = |wanted: &&str| {
            let found = self.versions.iter().find(|(name, _)| name == wanted);
            found.map(|(name, version)| format!("{name} {version}")).ok_or_else(|| format!("no version of {wanted}"))
        };
        names.iter().map(version).collect::<Result<Vec<_>, _>>().map(|versions| versions.join(", "))
    }
}

/// A processor's name without what is of no use.
fn plain(name: &str) -> String {
    let name = name.replace("(R)", "").replace("(TM)", "");
    let name = name.split(" @").next().unwrap_or_default();
    let words = name.split_whitespace().filter(|word| !["CPU", "Processor"].contains(word));
    words.collect::<Vec<_>>().join(" ")
}

/// `Linux 6.18.44-some-name` and what may follow, with the first two places of the version only.
fn two_places(text: &str) -> String {
    let mut words = text.split_whitespace();
    let (name, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut places = version.split(['.', '-']);
    format!("{name} {}.{}", places.next().unwrap_or_default(), places.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        "Intel(R) Xeon(R) Processor, 2 cores, Linux 6.18.44-abc-v1, rustc 1.95.0; tokio 1.54.1, tokio-util 0.7.20";

    #[test]
    fn a_reader_sees_what_matters() {
        let machine = Machine::parse(LINE).unwrap();
        assert_eq!(machine.system(), "Intel Xeon, 2 cores, Linux 6.18, rustc 1.95");
        assert_eq!(machine.versions(&["tokio-util", "tokio"]), Ok("tokio-util 0.7.20, tokio 1.54.1".to_owned()));
        assert_eq!(machine.versions(&["tick"]).unwrap_err(), "no version of tick");
    }

    #[test]
    fn other_processors_and_compilers_have_their_names_too() {
        for (line, system) in [
            (
                "Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz, 12 cores, Linux 6.1.0, rustc 1.95.0 (59807616e 2026-04-14)",
                "Intel Core i7-9750H, 12 cores, Linux 6.1, rustc 1.95",
            ),
            (
                "Chip, Inc. 64-Core Processor, 64 cores, Linux 5.15-x, rustc 1.85.1",
                "Chip, Inc. 64-Core, 64 cores, Linux 5.15, rustc 1.85",
            ),
        ] {
            assert_eq!(Machine::parse(line).unwrap().system(), system);
        }
    }

    #[test]
    fn a_line_that_is_no_machine_is_refused() {
        for line in
            ["", "2 cores, Linux 6.18, rustc 1.95", "Xeon, Linux 6.18, rustc 1.95", "a chip, 2 cores, rustc 1.95"]
        {
            assert!(Machine::parse(line).unwrap_err().contains("no machine"), "{line}");
        }
    }
}
