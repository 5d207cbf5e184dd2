use wasm_encoder::{
    CodeSection, ConstExpr, ElementSection, Elements, ExportKind, ExportSection, Function,
    FunctionSection, ImportSection, Instruction, MemorySection, MemoryType, Module as Encoded,
    NameMap, NameSection, RefType, TableSection, TableType, TypeSection, ValType,
};
use wasmparser::{Parser, Payload, TypeRef, Validator};

use crate::choose::{choose, room};
use crate::module::Module;
use crate::{Error, LOAD, Rooms, write};

/// `ui::start` calls `rules::answer`, which calls `rules::count`; the table has `ui::shown` and `rules::why`.
fn module() -> Vec<u8> {
    let mut types = TypeSection::new();
    types.ty().function([ValType::I32], [ValType::I32]);
    let mut imports = ImportSection::new();
    imports.import("page", "say", wasm_encoder::EntityType::Function(0));
    let mut functions = FunctionSection::new();
    let names = [
        "kv_ui::start",
        "kv_rules::answer",
        "core::count",
        "<kv_ui::Shown>::shown",
        "kv_rules::why",
    ];
    let calls = [Some(2), Some(3), Some(0), None, Some(3)];
    let mut code = CodeSection::new();
    let mut map = NameMap::new();
    map.append(0, "say");
    for ((name, call), index) in names.iter().zip(calls).zip(1..) {
        functions.function(0);
        map.append(index, name);
        let mut body = Function::new([]);
        body.instruction(&Instruction::LocalGet(0));
        if let Some(call) = call {
            body.instruction(&Instruction::Call(call));
        }
        body.instruction(&Instruction::End);
        code.function(&body);
    }
    let mut tables = TableSection::new();
    tables.table(TableType {
        element_type: RefType::FUNCREF,
        minimum: 3,
        maximum: Some(3),
        table64: false,
        shared: false,
    });
    let mut memories = MemorySection::new();
    memories.memory(MemoryType {
        minimum: 1,
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    });
    let mut exports = ExportSection::new();
    exports.export("start", ExportKind::Func, 1);
    let mut elements = ElementSection::new();
    elements.active(
        None,
        &ConstExpr::i32_const(1),
        Elements::Functions(vec![4, 5].into()),
    );
    let mut name_section = NameSection::new();
    name_section.functions(&map);
    let mut encoded = Encoded::new();
    encoded
        .section(&types)
        .section(&imports)
        .section(&functions)
        .section(&tables)
        .section(&memories);
    encoded
        .section(&exports)
        .section(&elements)
        .section(&code)
        .section(&name_section);
    encoded.finish()
}

const ROOMS: Rooms = Rooms {
    second: &["kv_rules"],
    first: &[],
};

fn imports(module: &[u8]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for payload in Parser::new(0).parse_all(module) {
        if let Payload::ImportSection(section) = payload.unwrap() {
            for import in section.into_imports() {
                let import = import.unwrap();
                let kind = match import.ty {
                    TypeRef::Func(_) => "function",
                    TypeRef::Table(_) => "table",
                    TypeRef::Memory(_) => "memory",
                    _ => "other",
                };
                found.push((
                    format!("{}.{}", import.module, import.name),
                    kind.to_owned(),
                ));
            }
        }
    }
    found
}

#[test]
fn what_only_the_second_rooms_call_goes_with_them() {
    let bytes = module();
    let module = Module::read(&bytes).unwrap();
    let choice = choose(&module, &ROOMS).unwrap();
    assert_eq!(choice.is_second, [false, true, true, false, true]);
    // `answer` is called from the first half, `why` stands in its table; `count` is the second's own
    assert_eq!(choice.entries, [2, 5]);
    let kept = Rooms {
        first: &["kv_rules::why"],
        ..ROOMS
    };
    let choice = choose(&module, &kept).unwrap();
    assert_eq!(choice.is_second, [false, true, false, false, false]);
}

#[test]
fn both_halves_are_modules_that_fit_together() {
    let bytes = module();
    let module = Module::read(&bytes).unwrap();
    let choice = choose(&module, &ROOMS).unwrap();
    let first = write::first(&module, &choice, &[]).unwrap();
    let second = write::second(&module, &choice, &[]).unwrap();
    Validator::new().validate_all(&first).unwrap();
    Validator::new().validate_all(&second).unwrap();
    let load = (format!("{}.{}", LOAD.0, LOAD.1), "function".to_owned());
    assert_eq!(
        imports(&first),
        [("page.0".to_owned(), "function".to_owned()), load]
    );
    let shared = [
        ("first.m", "memory"),
        ("first.t0", "table"),
        ("first.f0", "function"),
    ];
    assert_eq!(
        imports(&second),
        shared.map(|(name, kind)| (name.to_owned(), kind.to_owned()))
    );
    let again = Module::read(&first);
    assert!(matches!(again, Err(Error::NoNames)), "names are left out");
}

#[test]
fn a_room_that_is_not_there_is_an_error() {
    let bytes = module();
    let module = Module::read(&bytes).unwrap();
    let gone = Rooms {
        second: &["kv_rules::gone"],
        first: &[],
    };
    assert!(matches!(choose(&module, &gone), Err(Error::NoRoom(room)) if room == "kv_rules::gone"));
}

#[test]
fn a_function_is_of_the_room_that_defines_it() {
    for (name, of) in [
        ("kv_rules::plan::split", "kv_rules::plan"),
        ("<kv_rules::weights::Rank>::routed", "kv_rules::weights"),
        (
            "<<kv_ui::State>::new::{closure#0} as core::ops::FnOnce<()>>::call_once",
            "kv_ui",
        ),
        (
            "core::ptr::drop_in_place::<kv_rules::Answer>",
            "core::ptr::drop_in_place",
        ),
    ] {
        let found = room(name);
        assert!(found == of || found.starts_with(of), "{name}: {found}");
    }
    assert_eq!(room("kv_rules::plan::split"), "kv_rules::plan::split");
}
