//! What a layer of a model stores.

use serde::{Serialize, Serializer};

/// What a layer of a model stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LayerRole {
    /// `attention`: K and V of every token.
    Attention,
    /// `sliding_window`: K and V of the last tokens.
    SlidingWindow,
    /// `chunked_local`: K and V of the current chunk.
    ChunkedLocal,
    /// `mla`: one latent vector a token.
    Mla,
    /// `linear_state`: what a linear-attention or Mamba layer carries over.
    LinearState,
    /// `window`: DeepSeek V4's last tokens, whole.
    Window,
    /// `c4`: older tokens, 4 to a state.
    C4,
    /// `c128`: older tokens, 128 to a state.
    C128,
    /// `indexer`: keys by which tokens or states are chosen.
    Indexer,
    /// `c4_state`: what the 4:1 compressor carries over.
    C4State,
    /// `c128_state`: what the 128:1 compressor carries over.
    C128State,
    /// `indexer_state`: what the indexer's compressor carries over.
    IndexerState,
}

impl LayerRole {
    /// The name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Attention => "attention",
            Self::SlidingWindow => "sliding_window",
            Self::ChunkedLocal => "chunked_local",
            Self::Mla => "mla",
            Self::LinearState => "linear_state",
            Self::Window => "window",
            Self::C4 => "c4",
            Self::C128 => "c128",
            Self::Indexer => "indexer",
            Self::C4State => "c4_state",
            Self::C128State => "c128_state",
            Self::IndexerState => "indexer_state",
        }
    }

    /// The name for people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Attention => "attention",
            Self::SlidingWindow => "sliding window",
            Self::ChunkedLocal => "chunked local",
            Self::Mla => "MLA",
            Self::LinearState => "linear states",
            Self::Window => "window",
            Self::C4 => "C4",
            Self::C128 => "C128",
            Self::Indexer => "indexer",
            Self::C4State => "C4 states",
            Self::C128State => "C128 states",
            Self::IndexerState => "indexer states",
        }
    }

    /// What it is, in a sentence.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Attention => "K and V of every token",
            Self::SlidingWindow => "K and V of the last tokens only",
            Self::ChunkedLocal => "K and V of the current chunk only",
            Self::Mla => "one latent vector for every token, shared by all heads",
            Self::LinearState => {
                "the state of a linear-attention or Mamba layer, whatever the length"
            }
            Self::Window => "the last tokens, each whole",
            Self::C4 => "older tokens, 4 compressed into one state",
            Self::C128 => "older tokens, 128 compressed into one state",
            Self::Indexer => "keys by which each query picks what it attends to",
            Self::C4State => "what the C4 compressor carries from token to token",
            Self::C128State => "what the C128 compressor carries from token to token",
            Self::IndexerState => "what the indexer's compressor carries from token to token",
        }
    }
}

impl Serialize for LayerRole {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_role_has_words_of_its_own() {
        use LayerRole as R;
        let all = [
            R::Attention,
            R::SlidingWindow,
            R::ChunkedLocal,
            R::Mla,
            R::LinearState,
            R::Window,
            R::C4,
            R::C128,
            R::Indexer,
            R::C4State,
            R::C128State,
            R::IndexerState,
        ];
        for words in [R::as_str, R::label, R::describe] {
            let words: BTreeSet<&str> = all.into_iter().map(words).collect();
            assert_eq!(words.len(), all.len());
            assert!(!words.contains(""));
        }
    }
}
