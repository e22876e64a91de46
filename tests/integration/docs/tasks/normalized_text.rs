//! Replaces the parts of an output that differ between runs.

use std::sync::LazyLock;

use regex::Regex;

/// The parts that differ between runs, and their replacements, in this order.
static VARYING: LazyLock<Vec<TextRule>> = LazyLock::new(|| {
    compile_rules([
        (
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "<uuid>",
        ),
        (
            r"fmo-(order|cluster|key|entry):[0-9a-f]{16,}",
            "fmo-$1:<hex>",
        ),
        // A Unix time in seconds.
        (r"\border=\d{9,}", "order=<number>"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        (r#"attempt="[0-9a-f]{32}""#, r#"attempt="<nonce>""#),
        (r"-(on|off)-\d{9,}-\d+", "-$1-<number>"),
        // A name that the API server completes.
        (
            r"-reboot-[bcdfghjklmnpqrstvwxz2456789]{5}\b",
            "-reboot-<suffix>",
        ),
        (r"(flexmetal\.dev/acknowledge to )[0-9a-f]{12}", "$1<token>"),
        (r"\b198\.18\.\d+\.\d+", "<address>"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
        (r"SHA256:[A-Za-z0-9+/]{43}", "SHA256:<hash>"),
        // The width of a column depends on its longest word.
        (r" {2,}", "   "),
        (
            r"(?m)^(\d+[dhms])+( \(x\d+ over (\d+[dhms])+\))?   ",
            "<age>   ",
        ),
        (
            r"(?m)   (\d+[dhms])+( \(\d*[dhms]* ago\))?(   |$)",
            "   <age>$3",
        ),
        (r"(?m)[ \t]+$", ""),
    ])
});

/// A pattern, and what replaces it.
pub type TextRule = (Regex, &'static str);

/// The compiled rules. Keep them in a static: compiling them takes longer than applying them.
pub fn compile_rules<const N: usize>(rules: [(&str, &'static str); N]) -> Vec<TextRule> {
    let compiled = rules.map(|(pattern, word)| (Regex::new(pattern).unwrap(), word));
    compiled.into()
}

/// Applies the rules in their order.
pub fn apply_rules(rules: &[TextRule], text: String) -> String {
    rules.iter().fold(text, |text, (rule, word)| {
        rule.replace_all(&text, *word).into_owned()
    })
}

/// Replaces all parts that differ between runs, and removes empty lines at both ends.
pub fn normalize_text(text: &str) -> String {
    let replaced = apply_rules(&VARYING, text.to_owned());
    replaced.trim_matches('\n').to_owned()
}

/// The message about two texts that should be equal.
pub fn describe_difference(what: &str, kept: &str, now: &str) -> Option<String> {
    let (kept, now) = (kept.trim_end(), now.trim_end());
    (kept != now).then(|| format!("{what}\n--- kept\n{kept}\n--- now\n{now}\n"))
}
