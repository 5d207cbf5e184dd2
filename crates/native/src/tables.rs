//! Block tables: which blocks a request has, group by group.
//!
//! Mirrors `vllm/v1/core/single_type_kv_cache_manager.py` and `KVCacheManager.allocate_slots`,
//! without prefix hits: what no window reaches any more is given back first, then all groups
//! get their blocks, or none does.

use std::collections::BTreeMap;

use crate::blocks::{BlockId, BlockPool, NULL_BLOCK};
use crate::error::BlockError;
use crate::plan::{GroupPlan, PoolPlan};

/// A request, by a number of the caller's.
pub type RequestId = u64;

/// The tables of all requests, over one pool of blocks.
#[derive(Debug, Clone)]
pub struct BlockTables {
    groups: Vec<GroupPlan>,
    pool: BlockPool,
    requests: BTreeMap<RequestId, Vec<Vec<BlockId>>>,
}

impl BlockTables {
    /// No request yet.
    pub fn new(plan: &PoolPlan) -> Result<Self, BlockError> {
        Ok(Self {
            groups: plan.groups.clone(),
            pool: BlockPool::new(plan.num_blocks)?,
            requests: BTreeMap::new(),
        })
    }

    /// The blocks.
    #[must_use]
    pub const fn pool(&self) -> &BlockPool {
        &self.pool
    }

    /// The requests that have tables.
    pub fn requests(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.requests.keys().copied()
    }

    /// A request's table in a group: null where a block was given back.
    pub fn table(&self, request: RequestId, group: usize) -> Result<&[BlockId], BlockError> {
        let tables = self.requests.get(&request);
        let table = tables.and_then(|tables| tables.get(group));
        table
            .map(Vec::as_slice)
            .ok_or(BlockError::UnknownRequest(request))
    }

    /// Blocks for a request of so many tokens, of which so many are computed. The tables' new
    /// blocks, group by group.
    pub fn grow(
        &mut self,
        request: RequestId,
        computed_tokens: u64,
        tokens: u64,
    ) -> Result<Vec<Vec<BlockId>>, BlockError> {
        self.recycle(request, computed_tokens)?;
        let tables = self.requests.get(&request);
        let missing: Vec<u64> = self
            .groups
            .iter()
            .enumerate()
            .map(|(number, group)| {
                let has = tables.map_or(0, |tables| tables[number].len() as u64);
                tokens.div_ceil(group.tokens_per_block).saturating_sub(has)
            })
            .collect();
        let mut needed: u64 = 0;
        for count in &missing {
            needed = needed.saturating_add(*count);
        }
        let free = self.pool.free_blocks();
        if needed > free {
            return Err(BlockError::OutOfBlocks { needed, free });
        }
        let tables = self.requests.entry(request);
        let tables = tables.or_insert_with(|| vec![Vec::new(); self.groups.len()]);
        let mut all = Vec::with_capacity(missing.len());
        for (table, count) in tables.iter_mut().zip(missing) {
            let blocks = self.pool.take(count)?;
            table.extend(&blocks);
            all.push(blocks);
        }
        Ok(all)
    }

    /// Gives back what no window of a request reaches any more.
    /// Mirrors `SingleTypeKVCacheManager.remove_skipped_blocks`.
    fn recycle(&mut self, request: RequestId, computed_tokens: u64) -> Result<(), BlockError> {
        let Some(tables) = self.requests.get_mut(&request) else {
            return Ok(());
        };
        for (table, group) in tables.iter_mut().zip(&self.groups) {
            let skipped = group.keeps.skipped(computed_tokens) / group.tokens_per_block;
            let behind = usize::try_from(skipped).unwrap_or(usize::MAX);
            let behind = table.len().min(behind);
            let mut freed = Vec::new();
            for block in table[..behind].iter_mut().rev() {
                if *block == NULL_BLOCK {
                    break;
                }
                freed.push(std::mem::replace(block, NULL_BLOCK));
            }
            self.pool.give_back(&freed)?;
        }
        Ok(())
    }

    /// Ends a request: its blocks go back, each table's last first.
    pub fn end(&mut self, request: RequestId) -> Result<(), BlockError> {
        let tables = self.requests.remove(&request);
        for mut table in tables.ok_or(BlockError::UnknownRequest(request))? {
            table.reverse();
            self.pool.give_back(&table)?;
        }
        Ok(())
    }

    /// The block of a request's token.
    pub fn block_of(
        &self,
        request: RequestId,
        group: usize,
        token: u64,
    ) -> Result<BlockId, BlockError> {
        let table = self.table(request, group)?;
        let at = usize::try_from(token / self.groups[group].tokens_per_block).ok();
        let block = at.and_then(|at| table.get(at)).copied();
        block
            .filter(|block| *block != NULL_BLOCK)
            .ok_or(BlockError::NoBlock { group, token })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Keeps;

    fn tables(num_blocks: u64, groups: &[(u64, Keeps)]) -> BlockTables {
        let groups = groups.iter().map(|(tokens_per_block, keeps)| GroupPlan {
            tokens_per_block: *tokens_per_block,
            keeps: *keeps,
        });
        BlockTables {
            groups: groups.collect(),
            pool: BlockPool::new(num_blocks).unwrap(),
            requests: BTreeMap::new(),
        }
    }

    #[test]
    fn a_window_gives_back_what_it_leaves_behind() {
        // a window of 8 tokens keeps the 7 before the next one
        let mut tables = tables(20, &[(4, Keeps::Last { tokens: 7 }), (16, Keeps::All)]);
        tables.grow(7, 0, 16).unwrap();
        assert_eq!(tables.table(7, 0), Ok(&[1, 2, 3, 4][..]));
        assert_eq!(tables.table(7, 1), Ok(&[5][..]));
        // of 16 computed, 9 are behind: two whole blocks, the later one back first
        let new = tables.grow(7, 16, 17).unwrap();
        assert_eq!(tables.table(7, 0), Ok(&[0, 0, 3, 4, 2][..]));
        assert_eq!(new, [vec![2], vec![1]]);
        assert_eq!(
            tables.block_of(7, 0, 7),
            Err(BlockError::NoBlock { group: 0, token: 7 })
        );
        assert_eq!(tables.block_of(7, 0, 8), Ok(3));
    }

    #[test]
    fn all_groups_grow_or_none() {
        let mut tables = tables(4, &[(4, Keeps::All), (4, Keeps::All)]);
        tables.grow(1, 0, 4).unwrap();
        assert_eq!(
            tables.grow(2, 0, 4),
            Err(BlockError::OutOfBlocks { needed: 2, free: 1 })
        );
        assert_eq!(tables.table(2, 0), Err(BlockError::UnknownRequest(2)));
        assert_eq!(tables.pool().free_blocks(), 1);
        tables.end(1).unwrap();
        assert_eq!(tables.pool().free_blocks(), 3);
        assert_eq!(tables.end(1), Err(BlockError::UnknownRequest(1)));
    }

    #[test]
    fn chunks_are_given_back_whole() {
        let mut tables = tables(20, &[(4, Keeps::Chunk { tokens: 8 })]);
        tables.grow(1, 0, 20).unwrap();
        tables.grow(1, 15, 20).unwrap();
        assert_eq!(tables.table(1, 0), Ok(&[0, 0, 3, 4, 5][..]));
    }
}
