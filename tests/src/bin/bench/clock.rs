//! Measuring.

use std::time::{Duration, Instant};

use anyhow::Result;

/// A turn takes at least this long: short work is repeated within it, so that what the pause and
/// the other side left cold - caches, sleeping threads, clocks - is a small part of it. Short
/// enough that on a busy machine some turns are undisturbed.
const TURN: Duration = Duration::from_millis(20);

/// Between turns, so that threads of the other side that wait for work by spinning have gone to
/// sleep: those of GNU's OpenMP, which PyTorch uses, spin for several milliseconds.
const PAUSE: Duration = Duration::from_millis(25);

/// Turns of slow work end after this long, but for the first three.
const LONG_ENOUGH: Duration = Duration::from_secs(3);
const LEAST_TURNS: usize = 3;

/// Something whose time can be taken, so many times in a row; it gives the time of all.
pub trait Work {
    fn time(&mut self, repeats: u32) -> Result<Duration>;
}

impl<F: FnMut() -> Result<()>> Work for F {
    fn time(&mut self, repeats: u32) -> Result<Duration> {
        let start = Instant::now();
        for _ in 0..repeats {
            self()?;
        }
        Ok(start.elapsed())
    }
}

/// One side of a race.
struct Runner<'a> {
    work: &'a mut dyn Work,
    repeats: u32,
    best: Duration,
}

impl<'a> Runner<'a> {
    /// Warms up, and finds out how often the work has to be repeated.
    fn new(work: &'a mut dyn Work) -> Result<Runner<'a>> {
        work.time(2)?;
        let once = work.time(1)?.max(Duration::from_nanos(100));
        let repeats = TURN.as_nanos().div_ceil(once.as_nanos()).clamp(1, 100_000) as u32;
        Ok(Runner { work, repeats, best: Duration::MAX })
    }

    fn turn(&mut self) -> Result<()> {
        self.best = self.best.min(self.work.time(self.repeats)? / self.repeats);
        std::thread::sleep(PAUSE);
        Ok(())
    }
}

/// The best time of so many turns.
pub fn best(turns: usize, work: &mut dyn Work) -> Result<Duration> {
    let mut runner = Runner::new(work)?;
    let since = Instant::now();
    for turn in 0..turns {
        if turn >= LEAST_TURNS && since.elapsed() > LONG_ENOUGH {
            break;
        }
        runner.turn()?;
    }
    Ok(runner.best)
}

/// The best times of two sides that take turns.
pub fn race(
    turns: usize,
    ours: &mut dyn Work,
    peer: &mut dyn Work,
) -> Result<(Duration, Duration)> {
    let (mut ours, mut peer) = (Runner::new(ours)?, Runner::new(peer)?);
    let since = Instant::now();
    for turn in 0..turns {
        if turn >= LEAST_TURNS && since.elapsed() > 2 * LONG_ENOUGH {
            break;
        }
        ours.turn()?;
        peer.turn()?;
    }
    Ok((ours.best, peer.best))
}
