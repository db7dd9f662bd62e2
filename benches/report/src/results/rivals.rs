//! hairspring beside its rivals: `benches/rivals/results/rivals.csv`.

use super::csv::Csv;
use super::machine::Machine;
use super::number;

pub(crate) struct Rivals {
    pub(crate) machine: Machine,
    csv: Csv,
}

/// Where timers are armed and cancelled.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) runtime: &'static str,
    pub(crate) tasks: &'static str,
}

impl Rivals {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let csv = Csv::parse(text)?;
        let machine = Machine::parse(csv.comments.first().map_or("", String::as_str))?;
        Ok(Rivals { machine, csv })
    }

    /// Nanoseconds to arm a timer and cancel it, with an earlier one standing.
    pub(crate) fn arm(&self, rival: &str, place: Place, population: &str) -> Result<f64, String> {
        number(self.csv.get(&arm(rival, place, population), "median")?)
    }

    /// In how many rounds that was measured.
    pub(crate) fn rounds(&self, rival: &str, place: Place) -> Result<&str, String> {
        self.csv.get(&arm(rival, place, "0"), "rounds")
    }

    /// Anything else.
    pub(crate) fn median(&self, workload: &str, rival: &str, population: &str) -> Result<f64, String> {
        let row = [("workload", workload), ("rival", rival), ("population", population)];
        number(self.csv.get(&row, "median")?)
    }
}

fn arm<'a>(rival: &'a str, place: Place, population: &'a str) -> [(&'static str, &'a str); 6] {
    [
        ("workload", "arm+cancel"),
        ("rival", rival),
        ("runtime", place.runtime),
        ("tasks", place.tasks),
        ("earlier timer", "standing"),
        ("population", population),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# A chip, 2 cores, Linux 6.18, rustc 1.95.0; tokio 1.54.1
workload,rival,runtime,tasks,earlier timer,population,unit,median,p25,p75,rounds
arm+cancel,\"tokio, alternative\",2 workers,2,none,0,ns,588.95,530.75,624.35,15
arm+cancel,\"tokio, alternative\",2 workers,2,standing,0,ns,496.11,480.81,511.82,15
fire in one tick,\"hairspring\",2 workers,1,,1000000,ns,38.95,38.48,39.47,5
fire over 50 ms,\"hairspring\",2 workers,1,,1000000,ns,many,38.48,39.47,5
";

    #[test]
    fn figures_are_found_by_what_was_measured() {
        let rivals = Rivals::parse(TEXT).unwrap();
        let place = Place { runtime: "2 workers", tasks: "2" };
        let figures = [
            rivals.arm("tokio, alternative", place, "0").unwrap(),
            rivals.median("fire in one tick", "hairspring", "1000000").unwrap(),
        ];
        assert_eq!(figures.map(|figure| figure.to_string()), ["496.11", "38.95"]);
        assert_eq!(rivals.rounds("tokio, alternative", place), Ok("15"));
        let problem = rivals.arm("tick", place, "0").unwrap_err();
        assert!(problem.contains("no row") && problem.contains("rival `tick`"), "{problem}");
        let problem = rivals.median("fire over 50 ms", "hairspring", "1000000").unwrap_err();
        assert_eq!(problem, "`many` is no number");
    }
}
