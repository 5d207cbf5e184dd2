//! Blocks: who is free, who is held, and in which order they are used again.
//!
//! Mirrors `vllm/v1/core/block_pool.py` `BlockPool` and the free queue of
//! `vllm/v1/core/kv_cache_utils.py`: block 0 is the null block, held by nobody; free blocks
//! are taken from the front; what nobody will look for again goes back to the front, what
//! a prefix may find again to the end.

use crate::error::BlockError;

/// A block's number.
pub type BlockId = u32;

/// The block that stands for no block.
pub const NULL_BLOCK: BlockId = 0;

#[derive(Debug, Clone, Copy)]
struct Block {
    holders: u32,
    is_findable: bool,
    is_free: bool,
    before: u32,
    after: u32,
}

/// The blocks of a pool.
#[derive(Debug, Clone)]
pub struct BlockPool {
    // one more: the queue's two ends, before its first and after its last
    blocks: Vec<Block>,
    free: u64,
}

impl BlockPool {
    /// A pool of so many blocks, all free but the null block.
    pub fn new(num_blocks: u64) -> Result<Self, BlockError> {
        let ends = u32::try_from(num_blocks).map_err(|_| BlockError::PoolSize(num_blocks))?;
        if ends == 0 || ends == u32::MAX {
            return Err(BlockError::PoolSize(num_blocks));
        }
        let blocks = (0..=ends).map(|id| Block {
            holders: 0,
            is_findable: false,
            is_free: id != ends,
            before: id.checked_sub(1).unwrap_or(ends),
            after: if id == ends { 0 } else { id + 1 },
        });
        let mut pool = Self {
            blocks: blocks.collect(),
            free: num_blocks,
        };
        pool.unlink(NULL_BLOCK);
        Ok(pool)
    }

    /// All blocks, the null block among them.
    #[must_use]
    pub fn num_blocks(&self) -> u64 {
        self.blocks.len() as u64 - 1
    }

    /// Blocks that nobody holds.
    #[must_use]
    pub const fn free_blocks(&self) -> u64 {
        self.free
    }

    /// Who holds it: 0 for a free block, and for the null block.
    pub fn holders(&self, id: BlockId) -> Result<u32, BlockError> {
        self.check(id).map(|()| self.block(id).holders)
    }

    /// Takes blocks from the front of the queue: all of them or none.
    pub fn take(&mut self, count: u64) -> Result<Vec<BlockId>, BlockError> {
        if count > self.free {
            return Err(BlockError::OutOfBlocks {
                needed: count,
                free: self.free,
            });
        }
        let taken = (0..count).map(|_| {
            let id = self.block(self.ends()).after;
            self.unlink(id);
            let block = self.block_mut(id);
            block.holders = 1;
            // its old content is found no more
            block.is_findable = false;
            id
        });
        Ok(taken.collect())
    }

    /// Holds blocks once more, for another request of the same prefix; free ones leave the queue.
    pub fn hold(&mut self, ids: &[BlockId]) -> Result<(), BlockError> {
        ids.iter().try_for_each(|id| self.check(*id))?;
        for id in ids.iter().copied().filter(|id| *id != NULL_BLOCK) {
            if self.block(id).is_free {
                self.unlink(id);
            }
            self.block_mut(id).holders += 1;
        }
        Ok(())
    }

    /// Marks a held block's content as one that a prefix may find again.
    pub fn keep_findable(&mut self, id: BlockId) -> Result<(), BlockError> {
        self.check(id)?;
        if self.block(id).holders == 0 {
            return Err(BlockError::NotHeld(id));
        }
        self.block_mut(id).is_findable = true;
        Ok(())
    }

    /// Gives blocks back, those first that are to be used again first. Of a block that was not
    /// held nothing changes, nor of the others.
    pub fn give_back(&mut self, ids: &[BlockId]) -> Result<(), BlockError> {
        let real = || ids.iter().copied().filter(|id| *id != NULL_BLOCK);
        for (number, id) in real().enumerate() {
            self.check(id)?;
            let again = real().take(number).filter(|before| *before == id).count();
            if (self.block(id).holders as usize) <= again {
                return Err(BlockError::NotHeld(id));
            }
        }
        let (mut front, mut end) = (self.ends(), self.ends());
        for id in real() {
            let block = self.block_mut(id);
            block.holders -= 1;
            if block.holders > 0 {
                continue;
            }
            if block.is_findable {
                end = self.block(end).before;
                self.link(id, end);
                end = self.ends();
            } else {
                self.link(id, front);
                front = id;
            }
        }
        Ok(())
    }

    /// The free blocks, in the order in which they will be taken.
    pub fn queue(&self) -> impl Iterator<Item = BlockId> + '_ {
        let ends = self.ends();
        let first = self.block(ends).after;
        std::iter::successors(Some(first), |id| Some(self.block(*id).after))
            .take_while(move |id| *id != ends)
    }

    const fn ends(&self) -> u32 {
        // made of a u32
        #[allow(clippy::cast_possible_truncation)]
        let ends = (self.blocks.len() - 1) as u32;
        ends
    }

    fn check(&self, id: BlockId) -> Result<(), BlockError> {
        if id < self.ends() {
            Ok(())
        } else {
            Err(BlockError::NotOfPool(id))
        }
    }

    fn block(&self, id: u32) -> &Block {
        &self.blocks[id as usize]
    }

    fn block_mut(&mut self, id: u32) -> &mut Block {
        &mut self.blocks[id as usize]
    }

    fn unlink(&mut self, id: u32) {
        let Block { before, after, .. } = *self.block(id);
        self.block_mut(before).after = after;
        self.block_mut(after).before = before;
        self.block_mut(id).is_free = false;
        self.free -= 1;
    }

    /// Puts a block behind another.
    fn link(&mut self, id: u32, before: u32) {
        let after = self.block(before).after;
        self.block_mut(before).after = id;
        self.block_mut(after).before = id;
        let block = self.block_mut(id);
        (block.before, block.after, block.is_free) = (before, after, true);
        self.free += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_null_block_is_never_handed_out() {
        let mut pool = BlockPool::new(4).unwrap();
        assert_eq!(pool.free_blocks(), 3);
        assert_eq!(pool.take(3), Ok(vec![1, 2, 3]));
        assert_eq!(
            pool.take(1),
            Err(BlockError::OutOfBlocks { needed: 1, free: 0 })
        );
        assert_eq!(pool.give_back(&[NULL_BLOCK]), Ok(()));
        assert_eq!(pool.free_blocks(), 0);
    }

    #[test]
    fn what_is_not_findable_is_used_again_first() {
        let mut pool = BlockPool::new(6).unwrap();
        assert_eq!(pool.take(4), Ok(vec![1, 2, 3, 4]));
        pool.keep_findable(2).unwrap();
        pool.keep_findable(1).unwrap();
        pool.give_back(&[4, 3, 2, 1]).unwrap();
        assert_eq!(pool.queue().collect::<Vec<_>>(), [4, 3, 5, 2, 1]);
    }

    #[test]
    fn a_found_block_leaves_the_queue() {
        let mut pool = BlockPool::new(4).unwrap();
        assert_eq!(pool.take(2), Ok(vec![1, 2]));
        pool.keep_findable(1).unwrap();
        pool.give_back(&[2, 1]).unwrap();
        pool.hold(&[1]).unwrap();
        pool.hold(&[1]).unwrap();
        assert_eq!(pool.queue().collect::<Vec<_>>(), [2, 3]);
        pool.give_back(&[1]).unwrap();
        assert_eq!(pool.holders(1), Ok(1));
        pool.give_back(&[1]).unwrap();
        assert_eq!(pool.queue().collect::<Vec<_>>(), [2, 3, 1]);
    }

    #[test]
    fn giving_back_twice_changes_nothing() {
        let mut pool = BlockPool::new(4).unwrap();
        assert_eq!(pool.take(2), Ok(vec![1, 2]));
        assert_eq!(pool.give_back(&[1, 2, 1]), Err(BlockError::NotHeld(1)));
        assert_eq!(pool.give_back(&[1, 9]), Err(BlockError::NotOfPool(9)));
        assert_eq!(pool.free_blocks(), 1);
        assert_eq!(pool.holders(1), Ok(1));
    }
}
