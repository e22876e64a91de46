//! The clock of this computer, by the clock of the API server.

use super::CheckRow;
use crate::{
    ages,
    context::{Context, api_error},
};
use hosting::check::clock_skew;
use jiff::{SignedDuration, fmt::rfc2822};
use kube::client::Body;

const CHECK: &str = "clock";
/// A larger difference makes ages wrong.
const MOST: SignedDuration = SignedDuration::from_secs(10);

/// The check, and how far the API server's clock is at least ahead.
pub async fn check_clock(context: &Context) -> (CheckRow, SignedDuration) {
    let request = match http::Request::get("/version").body(Body::empty()) {
        Ok(request) => request,
        Err(error) => {
            let row = CheckRow::problem(CHECK, error.to_string(), "Report this as a bug");
            return (row, SignedDuration::ZERO);
        }
    };
    let sent = ages::now();
    let response = match context.client.send(request).await {
        Ok(response) => response,
        Err(error) => {
            let error = api_error("reach the API server".into(), error);
            let row = CheckRow::failed(CHECK, &error, "\"get\" on the path /version");
            return (row, SignedDuration::ZERO);
        }
    };
    let received = ages::now();
    let date = response.headers().get(http::header::DATE);
    let date = date.and_then(|date| rfc2822::parse(date.to_str().ok()?).ok());
    let Some(date) = date else {
        let row = CheckRow::ok(CHECK, "The API server sends no date to compare with");
        return (row, SignedDuration::ZERO);
    };
    let ahead = clock_skew(date.timestamp(), sent, received);
    (judge_lead(ahead), ahead)
}

fn judge_lead(ahead: SignedDuration) -> CheckRow {
    if ahead.abs() <= MOST {
        return CheckRow::ok(CHECK, "This computer agrees with the API server");
    }
    let direction = match ahead.is_negative() {
        true => "ahead of",
        false => "behind",
    };
    let by = ages::shorten(ahead.abs().as_secs());
    CheckRow::problem(
        CHECK,
        format!(
            "The clock of this computer is {by} {direction} the API server's, so ages are wrong"
        ),
        "Set it by NTP",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Verdict;

    #[test]
    fn both_directions_are_reported() {
        let judge = |seconds| judge_lead(SignedDuration::from_secs(seconds));
        assert_eq!(judge(10).result, Verdict::Ok);
        assert_eq!(judge(-10).result, Verdict::Ok);
        let row = judge(59);
        assert_eq!(row.result, Verdict::Problem);
        assert!(row.message.contains("59s behind"), "{}", row.message);
        let row = judge(-60);
        assert!(row.message.contains("60s ahead"), "{}", row.message);
    }
}
