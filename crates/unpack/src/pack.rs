//! Packs what [`Unpacker`](crate::Unpacker) unpacks.

use std::io::{Error, ErrorKind, Result, Write};

use lzma_rust2::{LzmaOptions, LzmaWriter};

use crate::{
    CHECKSUM_OF_NOTHING, LITERAL_CONTEXT_BITS, LITERAL_POSITION_BITS, POSITION_BITS, checksum,
    reach,
};

/// Packs bytes, up to 4 GiB, behind others that the reader has by then: to these they may refer.
///
/// # Errors
/// Where they are too long.
pub fn pack(bytes: &[u8], behind: &[u8]) -> Result<Vec<u8>> {
    let length =
        u32::try_from(bytes.len()).map_err(|error| Error::new(ErrorKind::FileTooLarge, error))?;
    let mut options = LzmaOptions::with_preset(9);
    options.lc = LITERAL_CONTEXT_BITS;
    options.lp = LITERAL_POSITION_BITS;
    options.pb = POSITION_BITS;
    options.nice_len = LzmaOptions::NICE_LEN_MAX;
    options.dict_size = reach(bytes.len(), behind.len());
    options.preset_dict = Some(behind.to_vec());
    let mut packed = length.to_le_bytes().to_vec();
    packed.extend(checksum(CHECKSUM_OF_NOTHING, bytes).to_le_bytes());
    let mut writer = LzmaWriter::new_no_header(packed, &options, false)?;
    writer.write_all(bytes)?;
    writer.finish()
}
