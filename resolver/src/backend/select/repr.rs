//! How a refusal prints what a layer asked for.

use std::fmt;

use super::Selection;
use crate::backend::rules::SelectorPrints;

/// `repr(AttentionSelectorConfig)`
pub(super) struct Repr<'a>(pub &'a Selection, pub SelectorPrints);

impl fmt::Display for Repr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(selection, prints) = self;
        let block_size = selection
            .block_size
            .map_or_else(|| "None".to_owned(), |size| size.to_string());
        write!(
            f,
            "AttentionSelectorConfig(head_size={}, dtype=torch.{}, kv_cache_dtype={}, \
             block_size={block_size}, use_mla={}, has_sink={}, use_sparse={}, use_mm_prefix={}, \
             use_per_head_quant_scales={}, attn_type=AttentionType.DECODER, \
             has_sliding_window={}, use_non_causal={}, use_batch_invariant=False, \
             use_kv_connector=False, use_adaptive_verification=False, use_pcp={}",
            selection.head_size,
            selection.dtype.as_str(),
            selection.kv_cache_dtype,
            python_bool(selection.use_mla),
            python_bool(selection.has_sink),
            python_bool(selection.use_sparse),
            python_bool(selection.use_mm_prefix),
            python_bool(selection.use_per_head_quant_scales),
            python_bool(selection.has_sliding_window),
            python_bool(selection.use_non_causal),
            python_bool(selection.use_pcp),
        )?;
        let use_dcp = python_bool(selection.use_dcp);
        match prints {
            SelectorPrints::Pcp => write!(f, ")"),
            SelectorPrints::Dcp => write!(f, ", use_dcp={use_dcp})"),
            SelectorPrints::Rswa => write!(f, ", use_dcp={use_dcp}, use_rswa=False)"),
        }
    }
}

const fn python_bool(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::tests::selection;

    #[test]
    fn a_release_prints_the_fields_that_it_has() {
        let selection = Selection {
            use_dcp: true,
            ..selection()
        };
        let ends = |prints| {
            let text = Repr(&selection, prints).to_string();
            let (_, ends) = text
                .split_once("use_adaptive_verification=False, ")
                .unwrap();
            ends.to_owned()
        };
        assert_eq!(ends(SelectorPrints::Pcp), "use_pcp=False)");
        assert_eq!(ends(SelectorPrints::Dcp), "use_pcp=False, use_dcp=True)");
        assert_eq!(
            ends(SelectorPrints::Rswa),
            "use_pcp=False, use_dcp=True, use_rswa=False)"
        );
    }
}
