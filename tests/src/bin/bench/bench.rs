//! What rows are measured with: the device, and the peer.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use etmetal::device::Device;
use etmetal::device::host::HostDevice;
use etmetal::stream::Stream;
use etmetal::tensor::{DType, Layout, Tensor};

use crate::clock;
use crate::peer::Peer;

/// Turns of each side.
const TURNS: usize = 40;

/// The device under test and its peers.
pub struct Bench {
    host: Arc<HostDevice>,
    most: usize,
    /// One for each number of threads, which PyTorch and numpy read when they start.
    peers: HashMap<usize, Peer>,
}

impl Bench {
    pub fn new() -> Result<Bench> {
        let host = HostDevice::try_shared()?;
        let most = host.threads();
        let peers = HashMap::from([(most, Peer::start(most)?)]);
        Ok(Bench { host, most, peers })
    }

    /// Threads that ours and the peer have at most.
    pub fn threads(&self) -> usize {
        self.most
    }

    /// What is measured, and against what.
    pub fn describe(&self) -> String {
        let peer = self.peers.get(&self.most).map(Peer::describe).unwrap_or_default();
        format!("device: {} ({} threads)\npeer: {peer}", self.host.name(), self.most)
    }

    /// Whether the peer has PyTorch.
    pub fn has_pytorch(&self) -> bool {
        self.peers.values().any(|peer| peer.describe().starts_with("PyTorch"))
    }

    pub fn device(&self) -> Arc<dyn Device> {
        self.host.clone()
    }

    pub fn stream(&self) -> Result<Stream> {
        Ok(Stream::new(self.device())?)
    }

    /// A float32 tensor with different numbers in it.
    pub fn filled(&self, sizes: &[i64]) -> Result<Tensor> {
        let tensor = Tensor::empty(&self.device(), DType::F32, Layout::contiguous(sizes)?)?;
        for i in 0..tensor.numel() {
            // SAFETY: the tensor has `numel` float elements and no work uses it yet.
            unsafe { *tensor.as_ptr().cast::<f32>().add(i) = (i % 251) as f32 / 251.0 - 0.5 };
        }
        Ok(tensor)
    }

    /// A tensor of `count` elements, 32-bit or bfloat16, with the numbers that the peer makes for
    /// the same case: 1/251 to 1, over and over.
    pub fn numbered(&self, dtype: DType, count: usize) -> Result<Tensor> {
        let tensor = Tensor::empty(&self.device(), dtype, Layout::contiguous(&[count as i64])?)?;
        let number = |i: usize| (i % 251 + 1) as f32 / 251.0;
        for i in 0..count {
            // SAFETY: the tensor has `count` elements of that type and no work uses it yet.
            unsafe {
                match dtype {
                    DType::Bf16 => {
                        let bits = number(i).to_bits();
                        let rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
                        *tensor.as_ptr().cast::<u16>().add(i) = rounded as u16;
                    }
                    _ => *tensor.as_ptr().cast::<f32>().add(i) = number(i),
                }
            }
        }
        Ok(tensor)
    }

    /// So many values of the result of the last case of the peer with `threads` threads, at even
    /// distances.
    pub fn samples(&mut self, threads: usize, count: usize) -> Result<Vec<f64>> {
        match self.peers.get_mut(&threads) {
            Some(peer) => peer.samples(count),
            None => Ok(Vec::new()),
        }
    }

    /// The best time of `ours` on `threads` threads.
    pub fn time(&self, threads: usize, mut ours: impl FnMut() -> Result<()>) -> Result<Duration> {
        self.host.set_threads(threads);
        let time = clock::best(TURNS, &mut ours);
        self.host.set_threads(self.most);
        time
    }

    /// The best times of `ours` and of `peer`, which is work of this program.
    pub fn race(
        &self,
        threads: usize,
        mut ours: impl FnMut() -> Result<()>,
        mut peer: impl FnMut() -> Result<()>,
    ) -> Result<(Duration, Duration)> {
        self.host.set_threads(threads);
        let times = clock::race(TURNS, &mut ours, &mut peer);
        self.host.set_threads(self.most);
        times
    }

    /// The best time of `ours`; and of the peer's `case` with its name, on as many threads.
    pub fn race_peer(
        &mut self,
        threads: usize,
        case: &str,
        mut ours: impl FnMut() -> Result<()>,
    ) -> Result<(Duration, (Duration, String))> {
        let peer = match self.peers.entry(threads) {
            Entry::Occupied(peer) => peer.into_mut(),
            Entry::Vacant(place) => place.insert(Peer::start(threads)?),
        };
        let name = peer.prepare(case)?;
        self.host.set_threads(threads);
        let times = clock::race(TURNS, &mut ours, peer);
        self.host.set_threads(self.most);
        let (ours, peer) = times?;
        Ok((ours, (peer, name)))
    }
}
