//! Makes a short text that matches a regular expression, for the syntax that schemas commonly use.

/// Longest text that is made, in characters.
const MAX_LENGTH: usize = 1_000;

/// Deepest nesting of groups that is followed.
const MAX_DEPTH: usize = 32;

/// A match of at least `least` characters; `variant` makes matches differ. `None` if the syntax is not supported or no
/// match of that length was found.
pub(super) fn matching(pattern: &str, least: usize, variant: u64) -> Option<String> {
    let variant = usize::try_from(variant).unwrap_or(0);
    // All repetitions grow until the text is long enough.
    let mut extra = 0;
    loop {
        let mut reader = Reader {
            rest: pattern.chars().collect(),
            at: 0,
            extra,
            variant,
        };
        let text = reader.alternatives(0)?;
        if reader.at < reader.rest.len() || text.chars().count() > MAX_LENGTH {
            return None;
        }
        if text.chars().count() >= least {
            return Some(text);
        }
        if extra > least {
            return None;
        }
        extra = (extra * 2).max(1);
    }
}

struct Reader {
    rest: Vec<char>,
    at: usize,
    /// Repetitions beyond the minimum.
    extra: usize,
    variant: usize,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.rest.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        Some(c)
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    /// A match of the first alternative. The others are parsed and ignored.
    fn alternatives(&mut self, depth: usize) -> Option<String> {
        let first = self.sequence(depth)?;
        while self.eat('|') {
            self.sequence(depth)?;
        }
        Some(first)
    }

    fn sequence(&mut self, depth: usize) -> Option<String> {
        let mut text = String::new();
        while let Some(c) = self.peek() {
            if c == '|' || c == ')' {
                break;
            }
            let piece = self.atom(depth)?;
            let times = self.times()?;
            if piece.len().saturating_mul(times) + text.len() > MAX_LENGTH * 4 {
                return None;
            }
            text.push_str(&piece.repeat(times));
        }
        Some(text)
    }

    fn atom(&mut self, depth: usize) -> Option<String> {
        match self.next()? {
            '^' | '$' => Some(String::new()),
            '.' => Some(pick(&letters(), self.variant)?.to_string()),
            '(' => self.group(depth + 1),
            '[' => self.class(),
            '\\' => self.escape(),
            // A quantifier of nothing.
            '*' | '+' | '?' => None,
            c => Some(c.to_string()),
        }
    }

    fn group(&mut self, depth: usize) -> Option<String> {
        if depth > MAX_DEPTH {
            return None;
        }
        if self.eat('?') {
            match self.next()? {
                ':' => {}
                '<' if !matches!(self.peek(), Some('=' | '!')) => while self.next()? != '>' {},
                // Look-around is not supported.
                _ => return None,
            }
        }
        let text = self.alternatives(depth)?;
        self.eat(')').then_some(text)
    }

    fn escape(&mut self) -> Option<String> {
        match self.next()? {
            'b' | 'B' => Some(String::new()),
            c => Some(pick(&self.escaped(c)?, self.variant)?.to_string()),
        }
    }

    /// Some of the characters that an escape matches.
    fn escaped(&mut self, c: char) -> Option<Vec<char>> {
        Some(match c {
            'd' => ('0'..='9').collect(),
            'w' | 'D' | 'S' => letters(),
            's' => vec![' '],
            'W' => vec!['-'],
            't' => vec!['\t'],
            'n' => vec!['\n'],
            'r' => vec!['\r'],
            'u' => vec![self.code(4)?],
            'x' => vec![self.code(2)?],
            'p' => self.property()?,
            c if c.is_ascii_alphanumeric() => return None,
            c => vec![c],
        })
    }

    fn code(&mut self, digits: usize) -> Option<char> {
        let text: String = (0..digits).map(|_| self.next()).collect::<Option<_>>()?;
        char::from_u32(u32::from_str_radix(&text, 16).ok()?)
    }

    fn property(&mut self) -> Option<Vec<char>> {
        if !self.eat('{') {
            return None;
        }
        let mut name = String::new();
        loop {
            match self.next()? {
                '}' => break,
                c => name.push(c),
            }
        }
        Some(match name.as_str() {
            "L" | "Letter" | "Ll" | "Alphabetic" => letters(),
            "Lu" => ('A'..='Z').collect(),
            "N" | "Nd" => ('0'..='9').collect(),
            _ => return None,
        })
    }

    fn class(&mut self) -> Option<String> {
        let negated = self.eat('^');
        let mut members: Vec<(char, char)> = Vec::new();
        loop {
            let first = match self.next()? {
                ']' if !members.is_empty() || negated => break,
                '\\' => {
                    let c = self.next()?;
                    let set = self.escaped(c)?;
                    if set.len() > 1 {
                        members.extend(set.into_iter().map(|c| (c, c)));
                        continue;
                    }
                    *set.first()?
                }
                c => c,
            };
            let is_range = self.peek() == Some('-')
                && self
                    .rest
                    .get(self.at + 1)
                    .is_some_and(|after| *after != ']');
            if !is_range {
                members.push((first, first));
                continue;
            }
            self.at += 1;
            let last = match self.next()? {
                '\\' => {
                    let c = self.next()?;
                    *self.escaped(c)?.first()?
                }
                c => c,
            };
            members.push((first, last));
        }
        let inside = |c: char| members.iter().any(|(from, to)| (*from..=*to).contains(&c));
        let choice: Vec<char> = if negated {
            (' '..='~').rev().filter(|c| !inside(*c)).collect()
        } else {
            members
                .iter()
                .flat_map(|(from, to)| (*from..=*to).take(64))
                .collect()
        };
        Some(pick(&choice, self.variant)?.to_string())
    }

    /// How often the atom before is repeated.
    fn times(&mut self) -> Option<usize> {
        let (least, most): (usize, usize) = match self.peek() {
            Some('*') => (0, usize::MAX),
            Some('+') => (1, usize::MAX),
            Some('?') => (0, 1),
            Some('{') => return self.counted(),
            _ => return Some(1),
        };
        self.at += 1;
        self.eat('?');
        Some(least.saturating_add(self.extra).min(most))
    }

    fn counted(&mut self) -> Option<usize> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.next()? {
                '}' => break,
                c => text.push(c),
            }
        }
        self.eat('?');
        let (least, most): (usize, usize) = match text.split_once(',') {
            None => {
                let exactly: usize = text.parse().ok()?;
                (exactly, exactly)
            }
            Some((least, "")) => (least.parse().ok()?, usize::MAX),
            Some((least, most)) => (least.parse().ok()?, most.parse().ok()?),
        };
        Some(least.saturating_add(self.extra).min(most))
    }
}

fn letters() -> Vec<char> {
    ('a'..='z').collect()
}

fn pick(choice: &[char], variant: usize) -> Option<char> {
    choice.get(variant % choice.len().max(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_patterns_are_matched() {
        let table = [
            "^[A-Z]{3}$",
            "^\\d{4}-\\d{2}-\\d{2}$",
            "^(foo|bar)-[0-9a-f]+$",
            "^https?://[^/\\s]+/.*$",
            "^[^@]+@[^@]+\\.[a-z]{2,}$",
            "^(?:[A-Za-z0-9_-]{1,64})$",
            "^#(?<hex>[0-9a-fA-F]{6})$",
            "^\\+?[1-9]\\d{1,14}$",
            "^[\\w.\\-]+$",
            "^[]a]$|x",
            "^\\p{Lu}\\p{L}*$",
            "abc",
            "",
        ];
        for pattern in table {
            for (least, variant) in [(0, 0), (0, 3)] {
                let text = matching(pattern, least, variant).unwrap();
                let schema = serde_json::json!({"pattern": pattern});
                let text = serde_json::Value::String(text);
                if let Ok(validator) = jsonschema::validator_for(&schema) {
                    assert!(validator.is_valid(&text), "{pattern} → {text}");
                }
            }
        }
    }

    #[test]
    fn repetitions_grow_to_the_least_length() {
        assert_eq!(matching("^a+$", 5, 0).as_deref(), Some("aaaaa"));
        assert!(matching("^[a-z]{2,9}$", 6, 0).unwrap().len() >= 6);
        assert_eq!(matching("^abc$", 6, 0), None);
    }

    #[test]
    fn what_is_not_known_or_too_long_is_said() {
        for pattern in [
            "(?=a)b",
            "(",
            "[a",
            "a{x}",
            "\\k<n>",
            "(((a{99}){99}){99})",
            "*",
            "a{2",
        ] {
            assert_eq!(matching(pattern, 0, 0), None, "{pattern}");
        }
        assert_eq!(matching(&"(".repeat(10_000), 0, 0), None);
    }
}
