//! Reads the types of the JSON from the source of the Rust types that are written as JSON: their fields, what serde is
//! told of each, and their documentation. What is not understood fails; nothing is guessed.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use kv_resolver::{Arch, Release};
use syn::{
    Attribute, Expr, Fields, GenericArgument, ImplItem, Item, Lit, PathArguments, Stmt, Type,
};

use crate::model::{Declared, Field, Shape, Ty, Types};

/// Types that write themselves otherwise than as their own word; what each writes.
fn by_hand(name: &str) -> Option<Written> {
    Some(match name {
        // an integer where the ratio is one
        "BytesPerToken" => Written::As(Ty::Number),
        // any JSON
        "Value" => Written::As(Ty::Unknown),
        "ParsedArgs" => Written::As(Ty::Object("Args")),
        "ParsedEnv" => Written::As(Ty::Object("Record<string, string>")),
        "UsageWord" => Written::As(Ty::Usage),
        "True" => Written::As(Ty::Only(true)),
        "False" => Written::As(Ty::Only(false)),
        "Arch" => Written::Words(Arch::ALL.map(|arch| arch.to_string()).to_vec()),
        "Release" => Written::Words(
            Release::ALL
                .map(|release| release.version().to_owned())
                .to_vec(),
        ),
        _ => return None,
    })
}

enum Written {
    As(Ty),
    Words(Vec<String>),
}

/// The source, by the names of the types in it.
#[derive(Default)]
pub struct Source {
    /// Those that derive `Serialize`.
    derived: HashMap<String, Vec<Item>>,
    /// The documentation of the others.
    docs: HashMap<String, String>,
    /// The words of `as_str`, by the type's name.
    words: HashMap<String, Vec<String>>,
}

impl Source {
    pub fn read(&mut self, folder: &Path, but: &Path) {
        if folder == but {
            return;
        }
        let mut entries: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                self.read(&path, but);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let file = syn::parse_file(&fs::read_to_string(&path).unwrap());
                file.unwrap()
                    .items
                    .into_iter()
                    .for_each(|item| self.take(item));
            }
        }
    }

    fn take(&mut self, item: Item) {
        let (name, attributes) = match &item {
            Item::Struct(item) => (item.ident.to_string(), &item.attrs),
            Item::Enum(item) => (item.ident.to_string(), &item.attrs),
            Item::Impl(item) => {
                let Type::Path(of) = &*item.self_ty else {
                    return;
                };
                let name = of.path.segments.last().unwrap().ident.to_string();
                for inner in &item.items {
                    if let ImplItem::Fn(function) = inner
                        && item.trait_.is_none()
                        && function.sig.ident == "as_str"
                        && let Some(words) = arms(&function.block.stmts)
                    {
                        self.words.insert(name.clone(), words);
                    }
                }
                return;
            }
            _ => return,
        };
        if derives_serialize(attributes) {
            self.derived.entry(name).or_default().push(item);
        } else {
            self.docs.insert(name, doc(attributes));
        }
    }

    /// Adds a type and all that it refers to.
    pub fn declare(&self, name: &str, types: &mut Types) {
        if types.by_name.contains_key(name) {
            return;
        }
        let place = types.order.len();
        types.order.push(name.to_owned());
        // so that what refers back to it finds it
        let empty = Declared {
            doc: String::new(),
            shape: Shape::Words(Vec::new()),
        };
        types.by_name.insert(name.to_owned(), empty);
        let declared = match by_hand(name) {
            Some(Written::Words(words)) => Declared {
                doc: self.docs.get(name).cloned().unwrap_or_default(),
                shape: Shape::Words(words),
            },
            Some(Written::As(_)) => unreachable!("{name} has no declaration of its own"),
            None if self.derived.contains_key(name) => self.derived(name, types),
            None => Declared {
                doc: self.docs[name].clone(),
                shape: Shape::Words(self.words.get(name).cloned().unwrap_or_else(|| {
                    panic!("{name} writes itself by hand and not by the words of as_str: say how in `by_hand`")
                })),
            },
        };
        assert_eq!(types.order[place], name);
        types.by_name.insert(name.to_owned(), declared);
    }

    fn item(&self, name: &str) -> &Item {
        match self.derived.get(name).map(Vec::as_slice) {
            Some([item]) => item,
            found => panic!("{name}: {} such types", found.map_or(0, <[Item]>::len)),
        }
    }

    fn derived(&self, name: &str, types: &mut Types) -> Declared {
        match self.item(name) {
            Item::Struct(item) => Declared {
                doc: doc(&item.attrs),
                shape: Shape::Object(self.fields(name, types)),
            },
            Item::Enum(item) => {
                let serde = Serde::of(&item.attrs);
                let shape = if serde.is_untagged {
                    let inner = |variant: &syn::Variant| match &variant.fields {
                        Fields::Unnamed(inner) if inner.unnamed.len() == 1 => {
                            self.ty(&inner.unnamed[0].ty, types)
                        }
                        _ => panic!("{name}: a variant that is no single type"),
                    };
                    Shape::Union(item.variants.iter().map(inner).collect())
                } else {
                    let word = |variant: &syn::Variant| {
                        assert!(matches!(variant.fields, Fields::Unit), "{name} is tagged");
                        let own = Serde::of(&variant.attrs);
                        own.rename.unwrap_or_else(|| {
                            renamed(&variant.ident.to_string(), serde.rename_all.as_deref())
                        })
                    };
                    Shape::Words(item.variants.iter().map(word).collect())
                };
                Declared {
                    doc: doc(&item.attrs),
                    shape,
                }
            }
            _ => unreachable!(),
        }
    }

    fn fields(&self, name: &str, types: &mut Types) -> Vec<Field> {
        let Item::Struct(item) = self.item(name) else {
            panic!("{name} is flattened and no struct")
        };
        let mut out = Vec::new();
        for field in &item.fields {
            let serde = Serde::of(&field.attrs);
            if serde.is_skipped {
                continue;
            }
            if serde.is_flattened {
                let (inner, is_optional) = match argument(&field.ty, "Option") {
                    Some(inner) => (inner, true),
                    None => (&field.ty, false),
                };
                let flattened = self.fields(&last_name(inner), types);
                out.extend(flattened.into_iter().map(|field| Field {
                    is_optional: field.is_optional || is_optional,
                    ..field
                }));
                continue;
            }
            // of what is skipped where it is none, there is never a null
            let ty = match argument(&field.ty, "Option") {
                Some(inner) if serde.may_be_skipped => self.ty(inner, types),
                _ => self.ty(&field.ty, types),
            };
            let own = field
                .ident
                .as_ref()
                .expect("a struct with names")
                .to_string();
            out.push(Field {
                name: serde.rename.unwrap_or(own),
                is_optional: serde.may_be_skipped,
                ty,
                doc: doc(&field.attrs),
            });
        }
        out
    }

    fn ty(&self, ty: &Type, types: &mut Types) -> Ty {
        match ty {
            Type::Reference(inner) => self.ty(&inner.elem, types),
            Type::Slice(inner) => Ty::List(Box::new(self.ty(&inner.elem, types))),
            Type::Tuple(inner) => {
                Ty::Tuple(inner.elems.iter().map(|ty| self.ty(ty, types)).collect())
            }
            Type::Path(_) => {
                if let Some(inner) = argument(ty, "Option") {
                    return Ty::OrNull(Box::new(self.ty(inner, types)));
                }
                if let Some(inner) = argument(ty, "Vec") {
                    return Ty::List(Box::new(self.ty(inner, types)));
                }
                if let Some(inner) = argument(ty, "Box") {
                    return self.ty(inner, types);
                }
                match last_name(ty).as_str() {
                    "u8" | "u16" | "u32" | "u64" | "usize" | "i64" | "f64" => Ty::Number,
                    "bool" => Ty::Bool,
                    "String" | "str" => Ty::Text,
                    name => match by_hand(name) {
                        Some(Written::As(ty)) => ty,
                        Some(Written::Words(_)) | None => {
                            self.declare(name, types);
                            Ty::Named(name.to_owned())
                        }
                    },
                }
            }
            _ => panic!("a type that is not understood"),
        }
    }
}

fn last_name(ty: &Type) -> String {
    match ty {
        Type::Reference(inner) => last_name(&inner.elem),
        Type::Path(path) => path.path.segments.last().unwrap().ident.to_string(),
        _ => panic!("a type without a name"),
    }
}

/// The type in `Option<…>` and the like.
fn argument<'a>(ty: &'a Type, of: &str) -> Option<&'a Type> {
    let Type::Path(path) = ty else { return None };
    let segment = path
        .path
        .segments
        .last()
        .filter(|segment| segment.ident == of)?;
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// The words of `match self { Self::A => "a", … }`, if that is all there is.
fn arms(block: &[Stmt]) -> Option<Vec<String>> {
    let [Stmt::Expr(Expr::Match(matched), None)] = block else {
        return None;
    };
    let word = |arm: &syn::Arm| match &*arm.body {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        _ => None,
    };
    matched.arms.iter().map(word).collect()
}

fn derives_serialize(attributes: &[Attribute]) -> bool {
    let mut found = false;
    for attribute in attributes
        .iter()
        .filter(|each| each.path().is_ident("derive"))
    {
        attribute
            .parse_nested_meta(|meta| {
                let last = meta.path.segments.last();
                found |= last.is_some_and(|last| last.ident == "Serialize");
                Ok(())
            })
            .unwrap();
    }
    found
}

/// What serde is told.
#[derive(Default)]
struct Serde {
    rename: Option<String>,
    rename_all: Option<String>,
    is_skipped: bool,
    may_be_skipped: bool,
    is_flattened: bool,
    is_untagged: bool,
}

impl Serde {
    fn of(attributes: &[Attribute]) -> Self {
        let mut out = Self::default();
        for attribute in attributes
            .iter()
            .filter(|each| each.path().is_ident("serde"))
        {
            attribute
                .parse_nested_meta(|meta| {
                    let text = || {
                        meta.value()?
                            .parse::<syn::LitStr>()
                            .map(|text| text.value())
                    };
                    match meta.path.get_ident().unwrap().to_string().as_str() {
                        "rename" => out.rename = Some(text()?),
                        "rename_all" => out.rename_all = Some(text()?),
                        "skip" => out.is_skipped = true,
                        "skip_serializing_if" => {
                            text()?;
                            out.may_be_skipped = true;
                        }
                        "flatten" => out.is_flattened = true,
                        "untagged" => out.is_untagged = true,
                        other => panic!("serde({other}) is not understood"),
                    }
                    Ok(())
                })
                .unwrap();
        }
        out
    }
}

fn renamed(name: &str, rule: Option<&str>) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    match rule {
        None => name.to_owned(),
        Some("snake_case") => snake,
        Some("SCREAMING_SNAKE_CASE") => snake.to_uppercase(),
        Some(other) => panic!("rename_all = {other:?} is not understood"),
    }
}

/// The documentation, without links of rustdoc.
fn doc(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter(|each| each.path().is_ident("doc"));
    let lines = lines.filter_map(|each| match &each.meta.require_name_value().ok()?.value {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value().trim().to_owned()),
            _ => None,
        },
        _ => None,
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    text.trim().replace("[`", "`").replace("`]", "`")
}
