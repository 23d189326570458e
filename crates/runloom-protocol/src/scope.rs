//! What an OAuth access token may do: one word each, and sets of them.

use std::fmt;

macro_rules! scopes {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $plain:literal;)*) => {
        /// One thing that a token may do.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Scope {
            $($(#[$doc])* $name,)*
        }

        impl Scope {
            /// Every scope, in the order of the protocol's list.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The word on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// What a person allows with it, as the consent page says it.
            #[must_use]
            pub fn plainly(self) -> &'static str {
                match self { $(Self::$name => $plain,)* }
            }
        }
    };
}

scopes! {
    /// Who the person is.
    IdentityRead = "mantyx.identity:read", "See your e-mail address and the name of the workspace";
    /// List agents.
    AgentsRead = "agents:read", "See the agents of the workspace";
    /// Change agents.
    AgentsWrite = "agents:write", "Create, change and delete agents";
    /// Have agents work.
    AgentsInvoke = "agents:invoke", "Have agents work for it";
    /// Read sessions.
    SessionsRead = "sessions:read", "Read conversations";
    /// Hold sessions.
    SessionsWrite = "sessions:write", "Start, continue and end conversations";
    /// Read runs.
    RunsRead = "runs:read", "Read runs: what was asked, done and answered";
    /// Start runs.
    RunsWrite = "runs:write", "Start and cancel runs, which may cost money";
    /// List models.
    ModelsRead = "models:read", "See which models the workspace can use";
    /// List tools.
    ToolsRead = "tools:read", "See the tools of the workspace";
    /// Change tools.
    ToolsWrite = "tools:write", "Create, change and delete tools";
    /// List schedules.
    SchedulesRead = "schedules:read", "See schedules";
    /// Change schedules.
    SchedulesWrite = "schedules:write", "Create, change and delete schedules";
    /// List inbounds.
    InboundsRead = "inbounds:read", "See inbound addresses";
    /// Change inbounds.
    InboundsWrite = "inbounds:write", "Create, change and delete inbound addresses";
    /// List plugins.
    PluginsRead = "plugins:read", "See which plugins are installed";
    /// Read the hive.
    HiveRead = "hive:read", "Read what agents share with each other";
    /// Write the hive.
    HiveWrite = "hive:write", "Change what agents share with each other";
    /// Read feedback.
    FeedbackRead = "feedback:read", "Read feedback on answers";
    /// Give feedback.
    FeedbackWrite = "feedback:write", "Give feedback on answers";
    /// Read approvals.
    ApprovalsRead = "approvals:read", "See which tool calls wait for approval";
    /// Decide approvals.
    ApprovalsWrite = "approvals:write", "Approve and deny tool calls of agents";
    /// Find A2A agents.
    A2aDiscovery = "a2a:discovery", "Find the agents that can be reached by A2A";
    /// Talk to A2A agents.
    A2aInvoke = "a2a:invoke", "Talk to agents by A2A";
    /// Connect by MCP.
    McpConnect = "mcp:connect", "Connect by MCP and use agents as tools";
}

impl Scope {
    /// Reads a word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|scope| scope.as_str() == word)
    }

    fn bit(self) -> u32 {
        1 << (self as u32)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Any number of scopes; as small as a number, because every request with a token looks at one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ScopeSet(u32);

impl ScopeSet {
    /// Words with spaces between them, as `scope` is on the wire.
    ///
    /// # Errors
    /// The first word that is no scope.
    pub fn parse(words: &str) -> Result<Self, &str> {
        Self::of_words(words.split(' ').filter(|word| !word.is_empty()))
    }

    /// Words of a list.
    ///
    /// # Errors
    /// The first word that is no scope.
    pub fn of_words<'words>(
        words: impl IntoIterator<Item = &'words str>,
    ) -> Result<Self, &'words str> {
        let mut set = Self::default();
        for word in words {
            set.0 |= Scope::parse(word).ok_or(word)?.bit();
        }
        Ok(set)
    }

    /// Whether a scope is in it.
    #[must_use]
    pub fn has(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Whether every scope of another set is in it.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// What is in both.
    #[must_use]
    pub fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The scopes in it, in the order of the protocol's list.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL
            .iter()
            .copied()
            .filter(move |scope| self.has(*scope))
    }
}

impl FromIterator<Scope> for ScopeSet {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

impl fmt::Display for ScopeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, scope) in self.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{scope}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scope_comes_back_from_its_word() {
        for scope in Scope::ALL {
            assert_eq!(Scope::parse(scope.as_str()), Some(*scope));
        }
        let all: ScopeSet = Scope::ALL.iter().copied().collect();
        assert_eq!(ScopeSet::parse(&all.to_string()), Ok(all));
        assert_eq!(all.iter().count(), Scope::ALL.len());
    }

    #[test]
    fn sets_know_what_they_cover() {
        let wide = ScopeSet::parse("runs:write  runs:read models:read").unwrap();
        let narrow = ScopeSet::parse("runs:read").unwrap();
        assert!(wide.covers(narrow) && !narrow.covers(wide));
        assert_eq!(wide.both(narrow), narrow);
        assert!(ScopeSet::parse("").unwrap().is_empty());
        assert_eq!(wide.to_string(), "runs:read runs:write models:read");
        assert_eq!(ScopeSet::parse("runs:read runs:delete"), Err("runs:delete"));
    }
}
