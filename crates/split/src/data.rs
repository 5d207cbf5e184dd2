//! Which data goes second: constants that only the second half's code speaks of.
//!
//! What the linker leaves behind (`--emit-relocs`) tells where each constant lies and which constants point to which. What
//! code speaks of is read from the code as it is now, for it has been optimised since: a number in it that lies within a
//! constant counts as speaking of it, which errs towards the first half.

use std::ops::Range;

use wasmparser::{
    BinaryReaderError, DataKind, KnownCustom, Linking, Operator, Parser, Payload, RelocationEntry,
    RelocationType, SymbolInfo,
};

use crate::Error;
use crate::choose::Choice;
use crate::module::{Module, count};

/// A gap between two constants that go second is filled with what lies there, if it is no longer: a segment costs as much.
const GAP_BYTES: u32 = 12;

/// A segment of data: where in memory, what, and whether it is constant.
pub struct Segment<'a> {
    pub start: u32,
    pub bytes: &'a [u8],
}

/// A constant, by its addresses.
struct Constant {
    place: Range<u32>,
    points_to: Vec<usize>,
    is_kept: bool,
}

/// The addresses of the constants that go second, in order, without overlap.
pub fn choose(linked: &[u8], module: &Module, choice: &Choice) -> Result<Vec<Range<u32>>, Error> {
    let mut constants = constants(linked)?;
    let staying = module
        .functions
        .iter()
        .zip(&choice.is_second)
        .filter(|(_, is_second)| !**is_second);
    let mut open = Vec::new();
    for (function, _) in staying {
        for operator in function.body.get_operators_reader()? {
            for number in numbers(&operator?) {
                open.extend(near(&constants, number));
            }
        }
    }
    open.extend((0..constants.len()).filter(|index| constants[*index].is_kept));
    for constant in &mut constants {
        constant.is_kept = false;
    }
    while let Some(index) = open.pop() {
        if !constants[index].is_kept {
            constants[index].is_kept = true;
            open.extend(&constants[index].points_to);
        }
    }
    let mut moved: Vec<Range<u32>> = Vec::new();
    // constants may lie within each other, as equal tails do
    let mut kept_up_to = 0;
    for constant in &constants {
        let mut place = constant.place.clone();
        if constant.is_kept {
            kept_up_to = kept_up_to.max(place.end);
            if let Some(last) = moved.last_mut() {
                last.end = last.end.min(place.start);
            }
            continue;
        }
        place.start = place.start.max(kept_up_to);
        match moved.last_mut() {
            Some(last) if place.start <= last.end => last.end = last.end.max(place.end),
            _ => moved.push(place),
        }
    }
    moved.retain(|place| place.start < place.end);
    Ok(moved)
}

/// Runs of memory that hold the ranges, and as little else as a segment of its own would cost.
pub fn runs(ranges: &[Range<u32>], segments: &[Segment]) -> Vec<(u32, Vec<u8>)> {
    let mut runs: Vec<Range<u32>> = Vec::new();
    let segment_of = |address: u32| {
        segments.iter().position(|segment| {
            segment.start <= address && address - segment.start < count(segment.bytes.len())
        })
    };
    for range in ranges {
        match runs.last_mut() {
            Some(last)
                if range.start - last.end <= GAP_BYTES
                    && segment_of(last.start) == segment_of(range.start) =>
            {
                last.end = range.end;
            }
            _ => runs.push(range.clone()),
        }
    }
    let bytes = |run: Range<u32>| {
        let segment = &segments[segment_of(run.start)?];
        let within = (run.start - segment.start) as usize..(run.end - segment.start) as usize;
        Some((run.start, segment.bytes.get(within)?.to_vec()))
    };
    runs.into_iter().filter_map(bytes).collect()
}

/// A module's segments.
pub fn segments<'a>(module: &Module<'a>) -> Result<Vec<Segment<'a>>, Error> {
    let data = module.data.clone().into_iter().flatten();
    data.map(|data| segment(&data?)).collect()
}

fn segment<'a>(data: &wasmparser::Data<'a>) -> Result<Segment<'a>, Error> {
    const UNKNOWN: Error = Error::Unknown("data that is not put at a fixed place");
    let DataKind::Active {
        memory_index: 0,
        offset_expr,
    } = &data.kind
    else {
        return Err(UNKNOWN);
    };
    match offset_expr.get_operators_reader().into_iter().next() {
        Some(Ok(Operator::I32Const { value })) => Ok(Segment {
            start: value.cast_unsigned(),
            bytes: data.data,
        }),
        _ => Err(UNKNOWN),
    }
}

/// The numbers of an instruction that may be addresses.
fn numbers(operator: &Operator) -> impl Iterator<Item = u32> + use<> {
    let number = match operator {
        Operator::I32Const { value } => Some(value.cast_unsigned()),
        Operator::I64Const { value } => u32::try_from(*value).ok(),
        Operator::I32Load { memarg }
        | Operator::I64Load { memarg }
        | Operator::F32Load { memarg }
        | Operator::F64Load { memarg }
        | Operator::I32Load8S { memarg }
        | Operator::I32Load8U { memarg }
        | Operator::I32Load16S { memarg }
        | Operator::I32Load16U { memarg }
        | Operator::I64Load8S { memarg }
        | Operator::I64Load8U { memarg }
        | Operator::I64Load16S { memarg }
        | Operator::I64Load16U { memarg }
        | Operator::I64Load32S { memarg }
        | Operator::I64Load32U { memarg } => u32::try_from(memarg.offset).ok(),
        _ => None,
    };
    // two addresses side by side, as a constant of 64 bits that is stored at once
    let high = match operator {
        Operator::I64Const { value } => u32::try_from(value.cast_unsigned() >> 32).ok(),
        _ => None,
    };
    let low = match operator {
        #[allow(clippy::cast_possible_truncation)] // the lower half is meant
        Operator::I64Const { value } => Some(value.cast_unsigned() as u32),
        _ => None,
    };
    number.into_iter().chain(high).chain(low)
}

/// The constants at an address.
fn at(constants: &[Constant], address: u32) -> impl Iterator<Item = usize> + '_ {
    let end = constants.partition_point(|constant| constant.place.start <= address);
    (0..end)
        .rev()
        .take(64)
        .filter(move |index| constants[*index].place.contains(&address))
}

/// The constants of which an address in code may speak: a loop may count up to the end of one, with the place of a field
/// added.
fn near(constants: &[Constant], address: u32) -> impl Iterator<Item = usize> + '_ {
    const PAST_END_BYTES: u32 = 32;
    let end = constants.partition_point(|constant| constant.place.start <= address);
    let is_near = move |place: &Range<u32>| address <= place.end.saturating_add(PAST_END_BYTES);
    (0..end)
        .rev()
        .take(64)
        .filter(move |index| is_near(&constants[*index].place))
}

/// What the linker knows.
#[derive(Default)]
struct Linked {
    /// Of each segment of data: where in memory, where its bytes lie in the section, how many.
    segments: Vec<(u32, u64, usize)>,
    /// Of each: whether it is constant.
    is_constant: Vec<bool>,
    /// Of each symbol of data: its segment and its place in it.
    symbols: Vec<Option<(u32, Range<u32>)>>,
    /// What is filled in, of the data and of the code.
    relocations: Vec<(bool, Vec<RelocationEntry>)>,
}

impl Linked {
    fn read(linked: &[u8]) -> Result<Self, Error> {
        let mut read = Self::default();
        for payload in Parser::new(0).parse_all(linked) {
            match payload? {
                Payload::DataSection(section) => {
                    let from = section.range().start;
                    for data in section {
                        let data = data?;
                        let start = segment(&data)?.start;
                        let bytes_start = data.range.end - data.data.len() as u64 - from;
                        read.segments.push((start, bytes_start, data.data.len()));
                    }
                }
                Payload::CustomSection(section) => match section.as_known() {
                    KnownCustom::Linking(reader) => {
                        for part in reader {
                            read.link(&part?)?;
                        }
                    }
                    KnownCustom::Reloc(reader) => {
                        let entries = reader.entries().into_iter();
                        let entries = entries.collect::<Result<_, BinaryReaderError>>()?;
                        let is_data = section.name() == "reloc.DATA";
                        read.relocations.push((is_data, entries));
                    }
                    _ => {}
                },
                _ => {}
            }
        }
        if read.relocations.is_empty() || read.symbols.is_empty() {
            return Err(Error::Unknown("no relocations"));
        }
        Ok(read)
    }

    fn link(&mut self, part: &Linking) -> Result<(), Error> {
        match part {
            Linking::SegmentInfo(map) => {
                for segment in map.clone() {
                    self.is_constant.push(segment?.name.starts_with(".rodata"));
                }
            }
            Linking::SymbolTable(map) => {
                for symbol in map.clone() {
                    self.symbols.push(place(&symbol?));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The addresses of a symbol, if it is constant.
    fn address(&self, symbol: u32) -> Option<Range<u32>> {
        let (segment, within) = self.symbols.get(symbol as usize)?.as_ref()?;
        let (start, ..) = self.segments.get(*segment as usize)?;
        self.is_constant.get(*segment as usize)?.then_some(())?;
        Some(start + within.start..start + within.end)
    }

    /// The address at which a place of the data section ends up.
    fn of_place(&self, offset: u32) -> Option<u32> {
        let offset = u64::from(offset);
        let holds = |(_, bytes_start, length): &&(u32, u64, usize)| {
            (*bytes_start..bytes_start + *length as u64).contains(&offset)
        };
        let (start, bytes_start, _) = self.segments.iter().find(holds)?;
        let within = u32::try_from(offset - bytes_start).ok()?;
        Some(start + within)
    }
}

/// Every constant, in order of address.
fn constants(linked: &[u8]) -> Result<Vec<Constant>, Error> {
    let linked = Linked::read(linked)?;
    let places = (0..count(linked.symbols.len())).filter_map(|symbol| linked.address(symbol));
    let mut places: Vec<Range<u32>> = places.filter(|place| !place.is_empty()).collect();
    places.sort_by_key(|place| (place.start, place.end));
    places.dedup();
    let constant = |place| Constant {
        place,
        points_to: Vec::new(),
        is_kept: false,
    };
    let mut constants: Vec<Constant> = places.into_iter().map(constant).collect();
    for (is_data, entries) in &linked.relocations {
        for entry in entries.iter().filter(|entry| is_address(entry.ty)) {
            let Some(place) = linked.address(entry.index) else {
                continue;
            };
            let Ok(target) = u32::try_from(i64::from(place.start) + entry.addend) else {
                continue;
            };
            let within = target.clamp(place.start, place.end.saturating_sub(1));
            let targets = at(&constants, within).chain(at(&constants, place.start));
            let targets: Vec<usize> = targets.collect();
            if !(place.start..=place.end).contains(&target) {
                // an address that leads elsewhere: whatever is meant stays
                let meant: Vec<usize> = at(&constants, target).chain(targets).collect();
                for index in meant {
                    constants[index].is_kept = true;
                }
            } else if *is_data && let Some(from) = linked.of_place(entry.offset) {
                let sources: Vec<usize> = at(&constants, from).collect();
                for source in sources {
                    constants[source].points_to.extend(&targets);
                }
            }
        }
    }
    Ok(constants)
}

const fn is_address(kind: RelocationType) -> bool {
    matches!(
        kind,
        RelocationType::MemoryAddrLeb
            | RelocationType::MemoryAddrSleb
            | RelocationType::MemoryAddrI32
    )
}

/// A symbol's segment and its place in it, if it is of data.
fn place(symbol: &SymbolInfo) -> Option<(u32, Range<u32>)> {
    match symbol {
        SymbolInfo::Data {
            symbol: Some(defined),
            ..
        } => Some((defined.index, defined.offset..defined.offset + defined.size)),
        SymbolInfo::Data { symbol: None, .. }
        | SymbolInfo::Func { .. }
        | SymbolInfo::Global { .. }
        | SymbolInfo::Section { .. }
        | SymbolInfo::Event { .. }
        | SymbolInfo::Table { .. } => None,
    }
}

/// A module without what the linker leaves behind, which other tools do not expect.
pub fn without_relocations(linked: &[u8]) -> Result<Vec<u8>, Error> {
    let mut module = wasm_encoder::Module::new();
    for payload in Parser::new(0).parse_all(linked) {
        let payload = payload?;
        if let Payload::CustomSection(section) = &payload
            && matches!(
                section.as_known(),
                KnownCustom::Linking(_) | KnownCustom::Reloc(_)
            )
        {
            continue;
        }
        if let Some((id, range)) = payload.as_section() {
            let bytes = usize::try_from(range.start)
                .ok()
                .zip(usize::try_from(range.end).ok());
            let data = bytes
                .and_then(|(start, end)| linked.get(start..end))
                .unwrap_or_default();
            module.section(&wasm_encoder::RawSection { id, data });
        }
    }
    Ok(module.finish())
}
