//! The table that is printed.

use std::time::Duration;

/// One line of the table.
pub struct Row {
    pub what: String,
    pub ours: String,
    pub peer: String,
    /// Ours against the peer; above 1 is better.
    pub ratio: f64,
    /// 0: there is none.
    pub target: f64,
}

impl Row {
    /// A row of two times.
    pub fn of_times(
        what: &str,
        ours: Duration,
        (peer, name): (Duration, &str),
        target: f64,
    ) -> Row {
        Row {
            what: what.into(),
            ours: milliseconds(ours),
            peer: format!("{name} {}", milliseconds(peer)),
            ratio: peer.as_secs_f64() / ours.as_secs_f64(),
            target,
        }
    }

    /// A row of two rates, `amount` of `unit` being done in each of the times.
    pub fn of_rates(
        what: &str,
        (amount, unit): (f64, &str),
        ours: Duration,
        (peer, name): (Duration, &str),
        target: f64,
    ) -> Row {
        let rate = |time: Duration| format!("{:.1} {unit}", amount / time.as_secs_f64());
        Row {
            ours: rate(ours),
            peer: format!("{name} {}", rate(peer)),
            ..Row::of_times(what, ours, (peer, name), target)
        }
    }
}

fn milliseconds(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 0.1 { format!("{:.1} us", ms * 1e3) } else { format!("{ms:.2} ms") }
}

/// Prints the names of the columns.
pub fn print_header() {
    println!("{:42} {:>14}   {:36} {:>7}  {:>7}", "", "etmetal", "peer", "ratio", "target");
}

/// Prints a row.
pub fn print(row: &Row) {
    let target = if row.target > 0.0 { format!(">={}", row.target) } else { "none".into() };
    println!(
        "{:42} {:>14}   {:36} {:>6.2}x {target:>7}{}",
        row.what,
        row.ours,
        row.peer,
        row.ratio,
        if row.ratio < row.target { "  missed" } else { "" }
    );
}

/// All rows in one.
#[derive(Default)]
pub struct Summary {
    rows: u32,
    missed: u32,
    logarithms: f64,
}

impl Summary {
    /// Takes a row into account.
    pub fn add(&mut self, row: &Row) {
        self.rows += 1;
        self.missed += u32::from(row.ratio < row.target);
        self.logarithms += row.ratio.ln();
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mean = (self.logarithms / f64::from(self.rows.max(1))).exp();
        let Summary { rows, missed, .. } = self;
        write!(f, "{rows} rows, {missed} below their targets, geometric mean {mean:.2}x")
    }
}
