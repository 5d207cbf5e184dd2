//! Query heads on one rank: what the kernels take, to which others are padded.

use super::Implementation;
use crate::error::{Refusal, Stage};
use crate::release::V4Heads;

/// What the kernels run; too many heads are refused. Mirrors the classes'
/// `get_padded_num_q_heads`.
pub(super) fn padded(
    implementation: Implementation,
    heads: u64,
    rule: V4Heads,
) -> Result<u64, Box<Refusal>> {
    let (sizes, refused) = kernels(implementation, rule);
    let fits = sizes.iter().copied().find(|most| heads <= *most);
    fits.ok_or_else(|| {
        let (whose, why) = refused;
        Refusal::raised(
            Stage::Model,
            "ValueError",
            format!("DeepseekV4 {whose} does not support {heads} heads ({why})."),
        )
    })
}

/// The sizes, and in two parts the words for more.
const fn kernels(
    implementation: Implementation,
    rule: V4Heads,
) -> (&'static [u64], (&'static str, &'static str)) {
    const HALVES: &str = "FP8 decode kernel requires h_q in {64, 128}";
    match (implementation, rule) {
        (_, V4Heads::UpTo128) => (&[64, 128], ("attention", "must be <= 128")),
        (Implementation::FlashMla, _) => (&[64, 128], ("FlashMLA", HALVES)),
        (_, V4Heads::Halves) => (&[64, 128], ("Flashinfer MLA Sparse", HALVES)),
        (Implementation::FlashInfer, V4Heads::HalvesBySm120) => {
            (&[64, 128], ("FlashInfer MLA Sparse", HALVES))
        }
        (Implementation::FlashInferSm120, V4Heads::HalvesBySm120) => (
            &[16, 32, 64, 128],
            (
                "FlashInfer MLA Sparse",
                "SM120 kernel requires h_q in {16, 32, 64, 128}",
            ),
        ),
        (_, V4Heads::FromEight) => (
            &[8, 16, 32, 64, 128],
            (
                "FlashInfer MLA Sparse",
                "sparse MLA kernel requires h_q in {8, 16, 32, 64, 128}",
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::Implementation::{FlashInfer, FlashInferSm120, FlashMla};
    use super::*;

    #[test]
    fn heads_are_padded_up_or_refused_in_the_releases_words() {
        let ask = |implementation, heads, rule| {
            padded(implementation, heads, rule).map_err(|refusal| refusal.to_string())
        };
        assert_eq!(ask(FlashInferSm120, 4, V4Heads::FromEight), Ok(8));
        assert_eq!(ask(FlashInferSm120, 4, V4Heads::HalvesBySm120), Ok(16));
        assert_eq!(ask(FlashInfer, 4, V4Heads::HalvesBySm120), Ok(64));
        assert_eq!(ask(FlashMla, 65, V4Heads::FromEight), Ok(128));
        assert_eq!(
            ask(FlashMla, 129, V4Heads::UpTo128).unwrap_err(),
            "DeepseekV4 attention does not support 129 heads (must be <= 128)."
        );
        assert_eq!(
            ask(FlashInfer, 256, V4Heads::Halves).unwrap_err(),
            "DeepseekV4 Flashinfer MLA Sparse does not support 256 heads (FP8 decode kernel \
             requires h_q in {64, 128})."
        );
        assert_eq!(
            ask(FlashInferSm120, 256, V4Heads::HalvesBySm120).unwrap_err(),
            "DeepseekV4 FlashInfer MLA Sparse does not support 256 heads (SM120 kernel requires \
             h_q in {16, 32, 64, 128})."
        );
    }
}
