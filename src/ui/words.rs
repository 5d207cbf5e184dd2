//! What the words mean that answers are told in: before the first of them.

use crate::markup::Markup;

/// Closed, until somebody wonders.
pub fn words(html: &mut Markup) {
    html.add(
        "<details class=\"sources words\"><summary class=\"hint\">What the words mean: backend, slot, page, block, group, pool …</summary><dl>\
         <dt>backend</dt><dd>the attention kernels that a layer gets</dd>\
         <dt>slot</dt><dd>the bytes of one stored state, such as a token’s keys and values</dd>\
         <dt>page</dt><dd>one layer’s slots for one block, padded to its alignment</dd>\
         <dt>group</dt><dd>layers that share a block table</dd>\
         <dt>block</dt><dd>what a group takes of the pool at once: the widest group’s pages, side by side</dd>\
         <dt>marginal bytes per token</dt><dd>what one more token takes of the pool, past every window</dd>\
         <dt>fixed bytes per request</dt><dd>what a request takes beside them: windows, states, tokens in flight</dd>\
         <dt>request bytes</dt><dd>both, at a length, in whole blocks</dd>\
         <dt>in flight</dt><dd>scheduled and not yet settled: room is held back for such tokens</dd>\
         <dt>pool</dt><dd>the bytes left for the KV cache on one GPU</dd>\
         <dt>environment</dt><dd>what is installed beside vLLM, such as FlashInfer and DeepGEMM: here, as in vLLM’s own image</dd>\
         </dl></details>",
        &[],
    );
}
