//! Ranking of memories for a query. Pure, so that tables can test it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use runloom_ports::store::{MemoryLink, MemoryRow};

/// Maximum words of one query.
const QUESTION_WORDS: usize = 32;

/// Factor of a score per link.
const FADING: f64 = 0.4;

/// Stop words.
const EMPTY_WORDS: [&str; 32] = [
    "a", "an", "and", "are", "as", "at", "be", "by", "did", "do", "does", "for", "from", "has",
    "have", "how", "in", "is", "it", "of", "on", "or", "that", "the", "this", "to", "was", "were",
    "what", "when", "who", "with",
];

/// The words of a text, in lower case. The store gets these words only.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| word.chars().take(64).collect::<String>().to_lowercase())
}

/// The words of a query, each once, without stop words unless there are no others.
pub(super) fn asked(question: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in words(question).take(QUESTION_WORDS) {
        if !all.contains(&word) {
            all.push(word);
        }
    }
    let telling: Vec<String> = all
        .iter()
        .filter(|word| !EMPTY_WORDS.contains(&word.as_str()))
        .cloned()
        .collect();
    if telling.is_empty() { all } else { telling }
}

/// Scores of the word matches: 1 for the best, falling with the rank. Databases compute scores differently, so only
/// their order is used.
pub(super) fn seeded(seeds: &[MemoryRow]) -> HashMap<String, f64> {
    let score = |rank: usize| 1.0 / (1.0 + rank as f64 * 0.25);
    seeds
        .iter()
        .enumerate()
        .map(|(rank, row)| (row.key.clone(), score(rank)))
        .collect()
}

/// Adds a part of the scores of `from` to linked memories; returns those reached for the first time. Word matches
/// strengthen each other, but are not strengthened by memories found through links.
pub(super) fn spread(
    scores: &mut HashMap<String, f64>,
    from: &[String],
    links: &[MemoryLink],
    is_first: bool,
) -> BTreeSet<String> {
    let given: HashMap<&str, f64> = from
        .iter()
        .filter_map(|key| scores.get(key).map(|score| (key.as_str(), *score)))
        .collect();
    let mut gained: BTreeMap<&str, f64> = BTreeMap::new();
    for link in links {
        for (one, other) in [(&link.from, &link.to), (&link.to, &link.from)] {
            let takes = is_first || !scores.contains_key(other);
            if let Some(score) = given.get(one.as_str()).filter(|_| takes) {
                *gained.entry(other.as_str()).or_default() += score * FADING;
            }
        }
    }
    let mut reached = BTreeSet::new();
    for (key, gain) in gained {
        if !scores.contains_key(key) {
            reached.insert(key.to_owned());
        }
        *scores.entry(key.to_owned()).or_default() += gain;
    }
    reached
}

/// Keys by score; among equals the newer, then by name.
pub(super) fn ranked(
    scores: &HashMap<String, f64>,
    rows: &HashMap<String, MemoryRow>,
) -> Vec<String> {
    let time = |key: &str| rows.get(key).map(|row| row.updated_at);
    let mut ranked: Vec<(&String, &f64)> = scores.iter().collect();
    ranked.sort_by(|(one, a), (other, b)| {
        b.total_cmp(a)
            .then_with(|| time(other).cmp(&time(one)))
            .then_with(|| one.cmp(other))
    });
    ranked.into_iter().map(|(key, _)| key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use runloom_ports::store::Millis;

    fn rows(keys: &[&str]) -> Vec<MemoryRow> {
        let row = |(no, key): (i64, &&str)| MemoryRow {
            no,
            key: (*key).to_owned(),
            text: String::new(),
            created_at: Millis(no),
            updated_at: Millis(no),
        };
        (0..).zip(keys).map(row).collect()
    }

    fn link(from: &str, to: &str) -> MemoryLink {
        MemoryLink {
            from: from.to_owned(),
            relation: "r".to_owned(),
            to: to.to_owned(),
        }
    }

    /// Runs a search over seeds in order of their match, and links; returns keys, best first.
    fn found(seeds: &[&str], links: &[(&str, &str)]) -> Vec<String> {
        let rows = rows(seeds);
        let mut scores = seeded(&rows);
        let mut frontier: Vec<String> = rows.iter().map(|row| row.key.clone()).collect();
        for step in 0..2 {
            let here: Vec<MemoryLink> = links
                .iter()
                .map(|(from, to)| link(from, to))
                .filter(|link| frontier.contains(&link.from) || frontier.contains(&link.to))
                .collect();
            let reached = spread(&mut scores, &frontier, &here, step == 0);
            frontier = reached.into_iter().collect();
        }
        let rows = rows.into_iter().map(|row| (row.key.clone(), row)).collect();
        ranked(&scores, &rows)
    }

    #[test]
    fn without_links_the_order_is_that_of_the_words() {
        assert_eq!(found(&["b", "a", "c"], &[]), ["b", "a", "c"]);
        assert!(found(&[], &[]).is_empty());
    }

    #[test]
    fn what_is_linked_is_found_too_and_fades_with_distance() {
        let chain = [("a", "n1"), ("n2", "n1"), ("n2", "n3")];
        assert_eq!(found(&["a"], &chain), ["a", "n1", "n2"]);
    }

    #[test]
    fn what_several_matches_lead_to_comes_before_a_weak_match() {
        let seeds = ["a", "b", "c", "d", "e", "weak"];
        let hub = [("a", "hub"), ("b", "hub"), ("c", "hub")];
        let order = found(&seeds, &hub);
        let place = |key: &str| order.iter().position(|found| found == key).unwrap();
        assert!(place("hub") < place("weak"), "{order:?}");
        assert!(place("a") < place("hub"), "{order:?}");
    }

    #[test]
    fn a_circle_of_links_ends() {
        let circle = [("a", "b"), ("b", "c"), ("c", "a")];
        assert_eq!(found(&["a"], &circle).len(), 3);
    }

    #[test]
    fn questions_become_plain_words() {
        assert_eq!(asked("What is the Boat's NAME?"), ["boat", "s", "name"]);
        assert_eq!(asked("to be or not to be"), ["not"]);
        assert_eq!(asked("is it"), ["is", "it"]);
        assert_eq!(asked("\"; DROP -- (x) * ^y"), ["drop", "x", "y"]);
        assert!(asked("?!* \u{0}").is_empty());
        let many = "w".repeat(100) + &" abc x1".repeat(1000);
        let asked = asked(&many);
        assert_eq!(asked, [&"w".repeat(64), "abc", "x1"]);
    }
}
