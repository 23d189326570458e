//! Edit distance, and the known word that a misspelt one was probably meant to be.

/// Words longer than this, in bytes, are not compared: no known word is as long.
const COMPARED_MAX_BYTES: usize = 80;

/// Edits within which a word counts as a misspelling of a known one.
pub const MISSPELLING_MAX_EDITS: usize = 2;

/// The number of characters to insert, delete or replace to turn one text into the other (Levenshtein).
#[must_use]
pub fn edit_distance(left: &str, right: &str) -> usize {
    strsim::levenshtein(left, right)
}

/// The known word within [`MISSPELLING_MAX_EDITS`] of `word`. Case, `_` and `-` do not count, so that `max_cost_usd` is
/// a misspelling of `maxCostUsd`.
#[must_use]
pub fn misspelling_of<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    nearest(word, known, MISSPELLING_MAX_EDITS)
}

/// The known word to suggest for an unknown one: at most half of the letters may differ.
#[must_use]
pub fn suggestion<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let max_edits = word.chars().count().div_ceil(2).max(MISSPELLING_MAX_EDITS);
    nearest(word, known, max_edits)
}

/// The known word with the fewest edits, unless it needs more than `max_edits`; the first of several.
fn nearest<'k>(
    word: &str,
    known: impl IntoIterator<Item = &'k str>,
    max_edits: usize,
) -> Option<&'k str> {
    if word.len() > COMPARED_MAX_BYTES {
        return None;
    }
    let word = letters(word);
    known
        .into_iter()
        .map(|known| (edit_distance(&word, &letters(known)), known))
        .filter(|(edits, _)| *edits <= max_edits)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, known)| known)
}

fn letters(word: &str) -> String {
    let plain = word.chars().filter(|letter| !matches!(letter, '_' | '-'));
    plain.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 4] = ["maxToolTurns", "maxWallMs", "maxOutputTokens", "maxCostUsd"];

    #[test]
    fn finds_misspellings() {
        for (word, known) in [
            ("maxCostUSD", "maxCostUsd"),
            ("max_cost_usd", "maxCostUsd"),
            ("maxToolTurn", "maxToolTurns"),
            ("maxWalMs", "maxWallMs"),
            ("MaxOutputToken", "maxOutputTokens"),
        ] {
            assert_eq!(misspelling_of(word, KNOWN), Some(known), "{word}");
        }
    }

    #[test]
    fn leaves_other_words_alone() {
        for other in ["maxTurns", "maxInputTokens", "cost", "", &"max".repeat(40)] {
            assert_eq!(misspelling_of(other, KNOWN), None, "{other}");
        }
    }

    #[test]
    fn suggests_across_half_of_the_letters() {
        assert_eq!(suggestion("maxTurns", KNOWN), Some("maxToolTurns"));
        assert_eq!(suggestion("colour", KNOWN), None);
    }
}
