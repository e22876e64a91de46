//! The `RANGED-DATA` header: which part of a list is wanted.

use http::HeaderMap;

use super::answer::Refusal;
use super::profile::{BadRange, ResultsAbove50, Switches};

/// Name of the header.
pub(crate) const RANGED_DATA: &str = "ranged-data";
/// Name of the header with the token of the next page of hosts.
pub(crate) const PAGE_TOKEN: &str = "page-token";

/// A part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Zero-based index of the first record.
    pub(crate) start: usize,
    /// Most records to show.
    pub(crate) results: usize,
}

/// The page sizes of a listing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paging {
    /// Page length without a header.
    pub(crate) default: usize,
    /// Longest page.
    pub(crate) max: usize,
}

/// The server list (section 8 of the API).
pub(crate) const SERVERS: Paging = Paging {
    default: 15,
    max: 50,
};
/// Every other listing with the header.
pub(crate) const OTHERS: Paging = Paging {
    default: 25,
    max: 50,
};

impl Paging {
    /// Reads the header.
    ///
    /// # Errors
    /// 422 where the switches say so.
    pub(crate) fn read(self, headers: &HeaderMap, switches: &Switches) -> Result<Page, Refusal> {
        let whole = Page {
            start: 0,
            results: self.default,
        };
        let Some(header) = headers.get(RANGED_DATA) else {
            return Ok(whole);
        };
        match header.to_str().ok().and_then(|text| parse(text, whole)) {
            Some(page) if page.results <= self.max => Ok(page),
            Some(page) => match switches.results_above_50 {
                ResultsAbove50::Clamp => Ok(Page {
                    results: self.max,
                    ..page
                }),
                ResultsAbove50::Refuse422 => Err(Refusal::breach(
                    "RANGED-DATA",
                    format!("results is {}, the most is {}", page.results, self.max),
                )),
            },
            None => match switches.bad_range {
                BadRange::Ignore => Ok(whole),
                BadRange::Refuse422 => Err(Refusal::breach(
                    "RANGED-DATA",
                    "must be start=<index>,results=<count>",
                )),
            },
        }
    }
}

fn parse(text: &str, default: Page) -> Option<Page> {
    let mut page = default;
    for part in text.split(',') {
        let (name, value) = part.split_once('=')?;
        let number = value.trim().parse().ok()?;
        match name.trim() {
            "start" => page.start = number,
            "results" => page.results = number,
            _ => return None,
        }
    }
    (page.results > 0).then_some(page)
}

#[cfg(test)]
mod tests {
    use super::super::options::Profile;
    use super::*;

    fn read(text: &'static str, profile: Profile) -> Result<Page, Refusal> {
        let mut headers = HeaderMap::new();
        headers.insert(RANGED_DATA, text.parse().unwrap());
        SERVERS.read(&headers, &Switches::of(profile))
    }

    #[test]
    fn ranged_data_defaults_missing_values() {
        let page = |start, results| Ok(Page { start, results });
        assert_eq!(
            SERVERS.read(&HeaderMap::new(), &Switches::of(Profile::Document)),
            page(0, 15)
        );
        assert_eq!(read("start=3,results=50", Profile::Document), page(3, 50));
        assert_eq!(read(" results=2 , start=9 ", Profile::Document), page(9, 2));
        assert_eq!(read("start=30", Profile::Document), page(30, 15));
    }

    #[test]
    fn too_long_and_unreadable_ranges_follow_the_switches() {
        let status = |answer: Result<Page, Refusal>| answer.unwrap_err().status.as_u16();
        assert_eq!(status(read("start=0,results=51", Profile::Document)), 422);
        assert_eq!(
            read("start=4,results=100", Profile::Observed),
            Ok(Page {
                start: 4,
                results: 50
            })
        );
        for bad in [
            "",
            "start",
            "start=-1",
            "results=0",
            "from=1",
            "start=1;results=2",
        ] {
            assert_eq!(status(read(bad, Profile::Document)), 422, "{bad}");
            assert_eq!(
                read(bad, Profile::Observed),
                Ok(Page {
                    start: 0,
                    results: 15
                }),
                "{bad}"
            );
        }
    }
}
