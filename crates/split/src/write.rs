//! The two halves, as bytes.

use std::collections::BTreeSet;
use std::ops::Range;

use wasm_encoder::reencode::{Reencode, utils};
use wasm_encoder::{
    CodeSection, ConstExpr, CustomSection, DataCountSection, DataSection, ElementSection, Elements,
    EntityType, ExportKind, ExportSection, Function, FunctionSection, GlobalSection, ImportSection,
    Instruction, MemorySection, Module as Encoded, StartSection, TableSection, TypeSection,
};
use wasmparser::Operator;

use crate::choose::Choice;
use crate::data::{self, Segment};
use crate::module::{Module, TARGET_FEATURES, count};
use crate::{Error, FIRST, LOAD};

/// What an entry is called by: its place in the table.
struct Slots {
    /// By entry.
    of: Vec<u32>,
    /// How many are added to the table.
    added: u32,
}

impl Slots {
    /// Those that stand in the table already keep their place; the others get one behind it.
    fn new(module: &Module, choice: &Choice) -> Self {
        let standing = |entry: u32| {
            module.elements.iter().find_map(|(start, functions)| {
                functions
                    .iter()
                    .position(|function| *function == entry)
                    .map(|at| start + count(at))
            })
        };
        let end = end_of_table(module);
        let mut added = 0;
        let of = choice.entries.iter().map(|entry| {
            standing(*entry).unwrap_or_else(|| {
                added += 1;
                end + added - 1
            })
        });
        Self {
            of: of.collect(),
            added,
        }
    }

    fn of(&self, choice: &Choice, function: u32) -> Option<u32> {
        choice
            .entries
            .binary_search(&function)
            .ok()
            .map(|entry| self.of[entry])
    }
}

fn end_of_table(module: &Module) -> u32 {
    module
        .tables
        .first()
        .map_or(0, |table| u32::try_from(table.initial).unwrap_or(u32::MAX))
}

/// Moves places of functions and globals from the whole module's to a half's.
struct Places<'a> {
    functions: Vec<u32>,
    globals: Vec<u32>,
    /// Of the first half: how the second's entries are called.
    slots: Option<(&'a Slots, &'a Choice)>,
}

impl Reencode for Places<'_> {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, function: u32) -> Result<u32, wasm_encoder::reencode::Error> {
        Ok(self.functions[function as usize])
    }

    fn global_index(&mut self, global: u32) -> Result<u32, wasm_encoder::reencode::Error> {
        Ok(self.globals[global as usize])
    }
}

impl Places<'_> {
    fn body(
        &mut self,
        module: &Module,
        function: &crate::module::Function,
    ) -> Result<Function, Error> {
        let mut body = self.new_function_with_parsed_locals(&function.body)?;
        let mut operators = function.body.get_operators_reader()?;
        while !operators.eof() {
            let operator = operators.read()?;
            if let (Operator::Call { function_index }, Some((slots, choice))) =
                (&operator, self.slots)
                && let Some(slot) = slots.of(choice, *function_index)
            {
                through_table(&mut body, module.kind(*function_index), slot);
            } else {
                body.instruction(&self.instruction(operator)?);
            }
        }
        Ok(body)
    }
}

fn through_table(body: &mut Function, type_index: u32, slot: u32) {
    body.instruction(&Instruction::I32Const(slot.cast_signed()));
    body.instruction(&Instruction::CallIndirect {
        type_index,
        table_index: 0,
    });
}

/// What the second half takes from the first, in the order of its imports.
struct Shared {
    functions: BTreeSet<u32>,
    globals: BTreeSet<u32>,
}

impl Shared {
    fn new(module: &Module, choice: &Choice) -> Self {
        let seconds = module
            .functions
            .iter()
            .zip(&choice.is_second)
            .filter(|(_, is_second)| **is_second);
        let mut shared = Self {
            functions: BTreeSet::new(),
            globals: BTreeSet::new(),
        };
        for (function, _) in seconds {
            shared.functions.extend(
                function
                    .calls
                    .iter()
                    .filter(|called| !choice.is_second(module, **called)),
            );
            shared.globals.extend(&function.globals);
        }
        shared
    }

    /// Short names: there are hundreds.
    fn names(prefix: char) -> impl Iterator<Item = String> {
        (0_u32..).map(move |number| format!("{prefix}{number:x}"))
    }
}

fn types(module: &Module) -> Result<TypeSection, Error> {
    let mut types = TypeSection::new();
    utils::parse_type_section(
        &mut wasm_encoder::reencode::RoundtripReencoder,
        &mut types,
        module.types.clone().ok_or(Error::Unknown("no types"))?,
    )?;
    Ok(types)
}

fn raw_features(encoded: &mut Encoded, module: &Module) {
    if let Some(data) = module.features {
        encoded.section(&CustomSection {
            name: TARGET_FEATURES.into(),
            data: data.into(),
        });
    }
}

/// The first half: with a stub for each entry of the second.
pub fn first(module: &Module, choice: &Choice, moved: &[Range<u32>]) -> Result<Vec<u8>, Error> {
    let slots = Slots::new(module, choice);
    let shared = Shared::new(module, choice);
    let mut same = wasm_encoder::reencode::RoundtripReencoder;
    let imported = count(module.imports.len());
    let staying = half(module, choice, false);
    let functions = places_in_first(module, choice, &staying);
    let mut places = Places {
        functions,
        globals: (0..count(module.global_types.len())).collect(),
        slots: Some((&slots, choice)),
    };
    let mut encoded = Encoded::new();
    let mut all_types = types(module)?;
    all_types.ty().function([], []);
    encoded.section(&all_types);

    let mut imports = ImportSection::new();
    // by their places, for each name has a hash in it, which does not compress
    for (place, import) in module.imports.iter().enumerate() {
        let name = place.to_string();
        imports.import(import.module, &name, same.entity_type(import.ty)?);
    }
    imports.import(
        LOAD.0,
        LOAD.1,
        EntityType::Function(count(module.parameters.len())),
    );
    encoded.section(&imports);

    let mut kinds = FunctionSection::new();
    for own in &staying {
        kinds.function(module.functions[*own].kind);
    }
    choice.entries.iter().for_each(|entry| {
        kinds.function(module.kind(*entry));
    });
    encoded.section(&kinds);

    let mut section = TableSection::new();
    for table in tables(module, &slots)? {
        section.table(table);
    }
    encoded.section(&section);
    let mut memories = MemorySection::new();
    for memory in &module.memories {
        memories.memory(same.memory_type(*memory)?);
    }
    encoded.section(&memories);
    if let Some(globals) = &module.globals {
        let mut section = GlobalSection::new();
        utils::parse_global_section(&mut same, &mut section, globals.clone())?;
        encoded.section(&section);
    }

    encoded.section(&exports(module, &shared, &mut places)?);
    if let Some(start) = module.start {
        encoded.section(&StartSection {
            function_index: places.function_index(start)?,
        });
    }

    encoded.section(&first_elements(module, choice, &slots, &places));
    if let Some(count) = module.data_count {
        encoded.section(&DataCountSection { count });
    }

    let mut code = CodeSection::new();
    for own in &staying {
        code.function(&places.body(module, &module.functions[*own])?);
    }
    for (entry, slot) in choice.entries.iter().zip(&slots.of) {
        code.function(&stub(module, *entry, *slot, imported));
    }
    encoded.section(&code);
    encoded.section(&first_data(module, moved)?);
    raw_features(&mut encoded, module);
    Ok(encoded.finish())
}

/// The functions of a half.
fn half(module: &Module, choice: &Choice, is_second: bool) -> Vec<usize> {
    (0..module.functions.len())
        .filter(|own| choice.is_second[*own] == is_second)
        .collect()
}

/// Where each function is in the first half: behind the imports is one more, the load; then come the functions that stay,
/// then the stubs.
fn places_in_first(module: &Module, choice: &Choice, staying: &[usize]) -> Vec<u32> {
    let imported = count(module.imports.len());
    let mut functions: Vec<u32> = (0..imported).collect();
    functions.resize(imported as usize + module.functions.len(), u32::MAX);
    for (own, place) in staying.iter().zip(imported + 1..) {
        functions[imported as usize + own] = place;
    }
    let next = imported + 1 + count(staying.len());
    for (entry, stub) in choice.entries.iter().zip(next..) {
        functions[*entry as usize] = stub;
    }
    functions
}

/// The table as it was, with stubs where entries stood, and the stubs of the others behind it.
fn first_elements(
    module: &Module,
    choice: &Choice,
    slots: &Slots,
    places: &Places,
) -> ElementSection {
    let mut elements = ElementSection::new();
    for (start, standing) in &module.elements {
        let standing: Vec<u32> = standing
            .iter()
            .map(|function| places.functions[*function as usize])
            .collect();
        elements.active(
            None,
            &ConstExpr::i32_const(start.cast_signed()),
            Elements::Functions(standing.into()),
        );
    }
    let end = end_of_table(module);
    let added = choice
        .entries
        .iter()
        .zip(&slots.of)
        .filter(|(_, slot)| **slot >= end);
    let added: Vec<u32> = added
        .map(|(entry, _)| places.functions[*entry as usize])
        .collect();
    elements.active(
        None,
        &ConstExpr::i32_const(end.cast_signed()),
        Elements::Functions(added.into()),
    );
    elements
}

/// The data without what goes second.
fn first_data(module: &Module, moved: &[Range<u32>]) -> Result<DataSection, Error> {
    let mut data = DataSection::new();
    for Segment { start, bytes } in data::segments(module)? {
        let mut bytes = bytes.to_vec();
        // nothing: what goes second is put there when that is here
        for range in moved {
            let within = range.start.saturating_sub(start) as usize
                ..range.end.saturating_sub(start) as usize;
            if let Some(gone) = bytes.get_mut(within).filter(|_| range.start >= start) {
                gone.fill(0);
            }
        }
        data.active(0, &ConstExpr::i32_const(start.cast_signed()), bytes);
    }
    Ok(data)
}

/// Asks for the second half, then calls what has taken the stub's place.
fn stub(module: &Module, entry: u32, slot: u32, load: u32) -> Function {
    let kind = module.kind(entry);
    let mut body = Function::new([]);
    body.instruction(&Instruction::Call(load));
    for parameter in 0..module.parameters[kind as usize] {
        body.instruction(&Instruction::LocalGet(parameter));
    }
    through_table(&mut body, kind, slot);
    body.instruction(&Instruction::End);
    body
}

/// The tables, the first, that of functions, with room for the added entries.
fn tables(module: &Module, slots: &Slots) -> Result<Vec<wasm_encoder::TableType>, Error> {
    let mut same = wasm_encoder::reencode::RoundtripReencoder;
    let mut tables = Vec::new();
    for (index, table) in module.tables.iter().enumerate() {
        let mut table = same.table_type(*table)?;
        if index == 0 {
            if table.element_type != wasm_encoder::RefType::FUNCREF {
                return Err(Error::Unknown("a first table of other than functions"));
            }
            table.minimum += u64::from(slots.added);
            table.maximum = table
                .maximum
                .map(|maximum| maximum + u64::from(slots.added));
        }
        tables.push(table);
    }
    Ok(tables)
}

fn exports(module: &Module, shared: &Shared, places: &mut Places) -> Result<ExportSection, Error> {
    let mut exports = ExportSection::new();
    for export in &module.exports {
        utils::parse_export(places, &mut exports, *export)?;
    }
    exports.export("m", ExportKind::Memory, 0);
    for (table, name) in (0..count(module.tables.len())).zip(Shared::names('t')) {
        exports.export(&name, ExportKind::Table, table);
    }
    for (function, name) in shared.functions.iter().zip(Shared::names('f')) {
        exports.export(
            &name,
            ExportKind::Func,
            places.functions[*function as usize],
        );
    }
    for (global, name) in shared.globals.iter().zip(Shared::names('g')) {
        exports.export(&name, ExportKind::Global, *global);
    }
    Ok(exports)
}

/// The second half: it imports what it shares with the first, and takes its places in the table.
pub fn second(module: &Module, choice: &Choice, moved: &[Range<u32>]) -> Result<Vec<u8>, Error> {
    let slots = Slots::new(module, choice);
    let shared = Shared::new(module, choice);
    let mut same = wasm_encoder::reencode::RoundtripReencoder;
    let mut encoded = Encoded::new();
    encoded.section(&types(module)?);

    let mut imports = ImportSection::new();
    let memory = module.memories.first().ok_or(Error::Unknown("no memory"))?;
    imports.import(FIRST, "m", EntityType::Memory(same.memory_type(*memory)?));
    for (table, name) in tables(module, &slots)?.into_iter().zip(Shared::names('t')) {
        imports.import(FIRST, &name, EntityType::Table(table));
    }
    let mut functions = vec![u32::MAX; module.imported_functions.len() + module.functions.len()];
    for ((function, name), place) in shared.functions.iter().zip(Shared::names('f')).zip(0..) {
        imports.import(FIRST, &name, EntityType::Function(module.kind(*function)));
        functions[*function as usize] = place;
    }
    let mut globals = vec![u32::MAX; module.global_types.len()];
    for ((global, name), place) in shared.globals.iter().zip(Shared::names('g')).zip(0..) {
        imports.import(
            FIRST,
            &name,
            EntityType::Global(same.global_type(module.global_types[*global as usize])?),
        );
        globals[*global as usize] = place;
    }
    encoded.section(&imports);

    let first_own = count(module.imported_functions.len());
    let moving = half(module, choice, true);
    let mut kinds = FunctionSection::new();
    for (own, place) in moving.iter().zip(count(shared.functions.len())..) {
        kinds.function(module.functions[*own].kind);
        functions[own + first_own as usize] = place;
    }
    encoded.section(&kinds);

    let mut places = Places {
        functions,
        globals,
        slots: None,
    };
    let mut elements = ElementSection::new();
    let mut standing: Vec<(u32, u32)> = slots
        .of
        .iter()
        .copied()
        .zip(
            choice
                .entries
                .iter()
                .map(|entry| places.functions[*entry as usize]),
        )
        .collect();
    standing.sort_unstable();
    // those that stand side by side are one segment
    for run in standing.chunk_by(|before, after| before.0 + 1 == after.0) {
        let functions: Vec<u32> = run.iter().map(|(_, function)| *function).collect();
        elements.active(
            None,
            &ConstExpr::i32_const(run[0].0.cast_signed()),
            Elements::Functions(functions.into()),
        );
    }
    encoded.section(&elements);
    let runs = data::runs(moved, &data::segments(module)?);
    encoded.section(&DataCountSection {
        count: count(runs.len()),
    });
    let mut code = CodeSection::new();
    for own in &moving {
        code.function(&places.body(module, &module.functions[*own])?);
    }
    encoded.section(&code);
    let mut data = DataSection::new();
    for (start, bytes) in runs {
        data.active(0, &ConstExpr::i32_const(start.cast_signed()), bytes);
    }
    encoded.section(&data);
    raw_features(&mut encoded, module);
    Ok(encoded.finish())
}
