//! One page of a listing by `RANGED-DATA`.

/// One page of a listing (the header `RANGED-DATA`, 8-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    start: u32,
    results: u32,
}

impl Page {
    /// The most records that the API gives at once.
    pub const MOST: u32 = 50;

    /// A page from the zero-based index `start` with 1 to 50 records. A larger `results` is clamped: the API gives 50,
    /// and the client would take the full page for the last one.
    pub fn new(start: u32, results: u32) -> Self {
        Self {
            start,
            results: results.clamp(1, Self::MOST),
        }
    }

    /// The first page, of the full size.
    pub fn first() -> Self {
        Self::new(0, Self::MOST)
    }

    /// The page of the same size that starts at `start`.
    pub fn at(self, start: u32) -> Self {
        Self { start, ..self }
    }

    /// The zero-based index of the first record.
    pub fn start(self) -> u32 {
        self.start
    }

    /// How many records are requested, 1 to 50.
    pub fn results(self) -> u32 {
        self.results
    }

    /// The value of the header.
    pub fn header(self) -> String {
        format!("start={},results={}", self.start, self.results)
    }
}
