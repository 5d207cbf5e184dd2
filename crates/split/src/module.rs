//! What a module has, as far as splitting asks.

use std::collections::HashMap;

use wasmparser::{
    DataSectionReader, ElementItems, ElementKind, Export, FromReader, FunctionBody,
    GlobalSectionReader, GlobalType, Import, KnownCustom, MemoryType, Name, Operator, Parser,
    Payload, SectionLimited, TableType, TypeRef, TypeSectionReader,
};

use crate::Error;

/// A module.
#[derive(Default)]
pub struct Module<'a> {
    /// Its type section, whole.
    pub types: Option<TypeSectionReader<'a>>,
    /// How many parameters each type has.
    pub parameters: Vec<u32>,
    pub imports: Vec<Import<'a>>,
    /// The type of each imported function.
    pub imported_functions: Vec<u32>,
    /// Its own functions.
    pub functions: Vec<Function<'a>>,
    pub tables: Vec<TableType>,
    pub memories: Vec<MemoryType>,
    pub globals: Option<GlobalSectionReader<'a>>,
    pub global_types: Vec<GlobalType>,
    pub exports: Vec<Export<'a>>,
    pub start: Option<u32>,
    /// What stands in the table of functions: from where on, which.
    pub elements: Vec<(u32, Vec<u32>)>,
    pub data: Option<DataSectionReader<'a>>,
    pub data_count: Option<u32>,
    /// Of `target_features`, as it is.
    pub features: Option<&'a [u8]>,
}

/// One of its own functions.
pub struct Function<'a> {
    /// Its type.
    pub kind: u32,
    /// Its name, readable.
    pub name: String,
    pub body: FunctionBody<'a>,
    /// The functions that it calls.
    pub calls: Vec<u32>,
    /// The globals that it reads or sets.
    pub globals: Vec<u32>,
}

impl Function<'_> {
    /// Of its code.
    pub fn bytes(&self) -> usize {
        self.body.as_bytes().len()
    }
}

/// The custom section that says which features of WebAssembly are used.
pub const TARGET_FEATURES: &str = "target_features";

/// What is read piece by piece.
#[derive(Default)]
struct Pieces<'a> {
    kinds: Vec<u32>,
    bodies: Vec<FunctionBody<'a>>,
    names: HashMap<u32, &'a str>,
}

impl<'a> Module<'a> {
    /// Reads one.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut module = Self::default();
        let mut pieces = Pieces::default();
        for payload in Parser::new(0).parse_all(bytes) {
            module.take(payload?, &mut pieces)?;
        }
        if pieces.names.is_empty() {
            return Err(Error::NoNames);
        }
        let first = count(module.imported_functions.len());
        for ((kind, body), index) in pieces.kinds.into_iter().zip(pieces.bodies).zip(first..) {
            let name = pieces.names.get(&index).copied().unwrap_or_default();
            module.functions.push(Function::read(kind, name, body)?);
        }
        Ok(module)
    }

    fn take(&mut self, payload: Payload<'a>, pieces: &mut Pieces<'a>) -> Result<(), Error> {
        match payload {
            Payload::TypeSection(section) => {
                for kind in section.clone().into_iter_err_on_gc_types() {
                    self.parameters.push(count(kind?.params().len()));
                }
                self.types = Some(section);
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import?;
                    let TypeRef::Func(kind) = import.ty else {
                        return Err(Error::Unknown("imports other than functions"));
                    };
                    self.imported_functions.push(kind);
                    self.imports.push(import);
                }
            }
            Payload::FunctionSection(section) => pieces.kinds = all(section)?,
            Payload::TableSection(section) => {
                for table in section {
                    self.tables.push(table?.ty);
                }
            }
            Payload::MemorySection(section) => self.memories = all(section)?,
            Payload::GlobalSection(section) => {
                for global in section.clone() {
                    self.global_types.push(global?.ty);
                }
                self.globals = Some(section);
            }
            Payload::ExportSection(section) => self.exports = all(section)?,
            Payload::StartSection { func, .. } => self.start = Some(func),
            Payload::ElementSection(section) => {
                for element in section {
                    self.elements.push(active(&element?)?);
                }
            }
            Payload::DataCountSection { count, .. } => self.data_count = Some(count),
            Payload::DataSection(section) => self.data = Some(section),
            Payload::CodeSectionEntry(body) => pieces.bodies.push(body),
            Payload::CustomSection(section) => match section.as_known() {
                KnownCustom::Name(reader) => {
                    for name in reader {
                        if let Name::Function(map) = name? {
                            for naming in map {
                                let naming = naming?;
                                pieces.names.insert(naming.index, naming.name);
                            }
                        }
                    }
                }
                _ if section.name() == TARGET_FEATURES => self.features = Some(section.data()),
                _ => {}
            },
            Payload::Version { .. } | Payload::CodeSectionStart { .. } | Payload::End(_) => {}
            _ => return Err(Error::Unknown("sections of a newer kind")),
        }
        Ok(())
    }

    /// One of its own functions, by its place among all; `None` if that is imported.
    pub fn own(&self, function: u32) -> Option<usize> {
        (function as usize).checked_sub(self.imported_functions.len())
    }

    /// The type of a function, by its place among all.
    pub fn kind(&self, function: u32) -> u32 {
        match self.own(function) {
            Some(own) => self.functions[own].kind,
            None => self.imported_functions[function as usize],
        }
    }
}

impl<'a> Function<'a> {
    fn read(kind: u32, name: &str, body: FunctionBody<'a>) -> Result<Self, Error> {
        let (mut calls, mut globals) = (Vec::new(), Vec::new());
        for operator in body.get_operators_reader()? {
            match operator? {
                Operator::Call { function_index } => calls.push(function_index),
                Operator::GlobalGet { global_index } | Operator::GlobalSet { global_index } => {
                    globals.push(global_index);
                }
                Operator::RefFunc { .. } | Operator::ReturnCall { .. } => {
                    return Err(Error::Unknown(
                        "references to functions outside of its table",
                    ));
                }
                _ => {}
            }
        }
        calls.sort_unstable();
        calls.dedup();
        globals.sort_unstable();
        globals.dedup();
        Ok(Self {
            kind,
            name: without_hashes(name),
            body,
            calls,
            globals,
        })
    }
}

/// A name as wasm-bindgen writes it, `kv_resolver[eeb3341aaec4e090]::plan::split`, without the hashes of crates.
fn without_hashes(name: &str) -> String {
    let mut words = name.split('[');
    let mut readable = words.next().unwrap_or_default().to_owned();
    for word in words {
        match word.split_once(']') {
            Some((hash, rest))
                if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
            {
                readable.push_str(rest);
            }
            _ => {
                readable.push('[');
                readable.push_str(word);
            }
        }
    }
    readable
}

/// Everything in a section.
fn all<'a, T: FromReader<'a>>(section: SectionLimited<'a, T>) -> Result<Vec<T>, Error> {
    Ok(section.into_iter().collect::<Result<_, _>>()?)
}

/// Of an element segment, from where on it fills the table, and with which functions.
fn active(element: &wasmparser::Element) -> Result<(u32, Vec<u32>), Error> {
    const UNKNOWN: Error =
        Error::Unknown("element segments other than of functions, at a fixed place of one table");
    let ElementKind::Active {
        table_index: None | Some(0),
        offset_expr,
    } = &element.kind
    else {
        return Err(UNKNOWN);
    };
    let Some(Ok(Operator::I32Const { value })) =
        offset_expr.get_operators_reader().into_iter().next()
    else {
        return Err(UNKNOWN);
    };
    let ElementItems::Functions(functions) = &element.items else {
        return Err(UNKNOWN);
    };
    let functions = functions.clone().into_iter().collect::<Result<_, _>>()?;
    Ok((value.cast_unsigned(), functions))
}

/// A count as WebAssembly has them; a module has no more than fit.
pub fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
