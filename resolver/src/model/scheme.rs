//! How a checkpoint is quantised, kind of module by kind of module.

use super::ModelError;
use super::bounds::MOST_LAYERS;
use super::fields::text;
use super::weights::Fp8Block;
use crate::value::Value;

/// Kinds of modules that checkpoints tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Module {
    /// Attention with K and V.
    Attention,
    /// Linear attention.
    Linear,
    /// An MLP without experts.
    Dense,
    /// Experts that every token goes through.
    Shared,
    /// Routed experts.
    Experts,
    /// The head.
    Head,
}

impl Module {
    const ALL: [Self; 6] = [
        Self::Attention,
        Self::Linear,
        Self::Dense,
        Self::Shared,
        Self::Experts,
        Self::Head,
    ];
    const MLP: [Self; 3] = [Self::Dense, Self::Shared, Self::Experts];
}

/// How the weights of a kind of module are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// In the model's dtype.
    Plain,
    /// fp8 with a scale to each block.
    Fp8Block(Fp8Block),
    /// fp8 with a scale to each matrix and one to what goes into it.
    Fp8Tensor,
    /// mxfp4.
    Mxfp4,
    /// ModelOpt's nvfp4.
    Nvfp4,
    /// The same, of weights alone.
    Nvfp4Weights,
    /// Four bits, with a scale to so many weights.
    Packed4(u64),
}

/// Which attention layers have scales of the cache to load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadedScales {
    /// None.
    None,
    /// Those with K and V.
    NotLatent,
    /// All.
    All,
}

/// How a checkpoint is quantised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scheme {
    /// Each kind of module in one way.
    Known {
        /// In the order of [`Module`].
        kept: [Kept; Module::ALL.len()],
        /// Which scales of the cache there are.
        scales: LoadedScales,
    },
    /// One without rules here, or that differs from layer to layer.
    Other(String),
}

impl Scheme {
    fn all(kept: Kept, scales: LoadedScales) -> Self {
        let mut all = [kept; Module::ALL.len()];
        all[Module::Head as usize] = Kept::Plain;
        Self::Known { kept: all, scales }
    }

    fn but(mut self, module: Module, by: Kept) -> Self {
        if let Self::Known { kept, .. } = &mut self {
            kept[module as usize] = by;
        }
        self
    }
}

/// Which layers have which kinds of modules.
#[derive(Clone, Copy)]
pub(super) struct Shape<'a> {
    pub model_type: &'a str,
    /// Decoder layers.
    pub layers: u64,
    /// The first of them have no experts.
    pub dense: u64,
    /// Whether a layer is linear attention.
    pub linear: &'a dyn Fn(u64) -> bool,
}

impl Shape<'_> {
    fn has(&self, module: Module, layer: u64) -> bool {
        match module {
            Module::Attention => !(self.linear)(layer),
            Module::Linear => (self.linear)(layer),
            // every layer of Gemma 4 has both
            Module::Dense => layer < self.dense || self.model_type == "gemma4",
            Module::Experts | Module::Shared => layer >= self.dense,
            Module::Head => layer == 0,
        }
    }
}

/// Layers, by number.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Layers([u64; (MOST_LAYERS / 64) as usize]);

impl Layers {
    fn add(&mut self, layer: u64) {
        if let Some(word) = self
            .0
            .get_mut(usize::try_from(layer / 64).unwrap_or(usize::MAX))
        {
            *word |= 1 << (layer % 64);
        }
    }

    fn has(&self, layer: u64) -> bool {
        let word = self
            .0
            .get(usize::try_from(layer / 64).unwrap_or(usize::MAX));
        word.is_some_and(|word| word >> (layer % 64) & 1 == 1)
    }
}

/// Reads it.
pub(super) fn scheme(
    config: &Value,
    language: &Value,
    block: Option<Fp8Block>,
    shape: &Shape,
) -> Result<Scheme, Box<ModelError>> {
    let Some(quantization) = [config, language]
        .iter()
        .find_map(|part| part.get_set("quantization_config"))
    else {
        return Ok(Scheme::all(Kept::Plain, LoadedScales::None));
    };
    let method = text(quantization, "quant_method")?;
    let algorithm = quantization
        .get_set("quant_algo")
        .or_else(|| quantization.get_set("quantization")?.get_set("quant_algo"))
        .and_then(Value::as_str);
    let scales = match quantization.get_set("kv_cache_scheme") {
        Some(_) => LoadedScales::All,
        None => LoadedScales::None,
    };
    let other = |what: &str| Ok(Scheme::Other(super::clip(what)));
    match (method, algorithm) {
        (Some("fp8"), algorithm) => match (block, quantization.get_set("moe_quant_algo")) {
            (Some(block), None) if algorithm.is_none() => {
                Ok(Scheme::all(Kept::Fp8Block(block), LoadedScales::NotLatent))
            }
            // `vllm/models/deepseek_v4/quant_config.py` `moe_quant_algo`
            (Some(block), Some(algorithm)) if algorithm.as_str() == Some("NVFP4") => {
                let scheme = Scheme::all(Kept::Fp8Block(block), LoadedScales::NotLatent);
                Ok(scheme.but(Module::Experts, Kept::Nvfp4))
            }
            _ => other("fp8 of some layers"),
        },
        (Some("mxfp4"), _) => {
            let plain = Scheme::all(Kept::Plain, LoadedScales::None);
            Ok(plain.but(Module::Experts, Kept::Mxfp4))
        }
        (Some("modelopt"), Some("NVFP4")) => ignored(quantization, shape, Kept::Nvfp4, scales),
        (Some("modelopt"), Some("MIXED_PRECISION")) => mixed(quantization, shape, scales),
        (Some("compressed-tensors"), _) => match packed(quantization) {
            Some(kept) => ignored(quantization, shape, kept, LoadedScales::None),
            None => other("compressed-tensors"),
        },
        (method, _) => other(method.unwrap_or("ModelOpt")),
    }
}

/// Weights of one scheme in `config_groups` and nothing else.
fn packed(quantization: &Value) -> Option<Kept> {
    let Some(Value::Object(groups)) = quantization.get_set("config_groups") else {
        return None;
    };
    let [(_, group)] = &groups[..] else {
        return None;
    };
    if group.get_set("input_activations").is_some() {
        return None;
    }
    let weights = group.get_set("weights")?;
    let bits = weights.get_set("num_bits")?.as_integer()?;
    let size = u64::try_from(weights.get_set("group_size")?.as_integer()?).ok()?;
    let format = quantization.get_set("format")?.as_str()?;
    match (format, bits, weights.get_set("type")?.as_str()?) {
        ("pack-quantized", 4, "int") if size > 0 => Some(Kept::Packed4(size)),
        ("mxfp4-pack-quantized", 4, "float") if size == 32 => Some(Kept::Mxfp4),
        _ => None,
    }
}

/// What a module's name, after its layer's number, speaks of.
fn modules(shape: &Shape, name: &str) -> &'static [Module] {
    let says = |part| name.contains(part);
    // routers are not quantised here whatever is said
    if name.ends_with("gate") || says("router") || says("mtp") || says("vision") || says("visual") {
        &[]
    } else if says("self_attn") && shape.model_type == "kimi_k3" {
        &[Module::Attention, Module::Linear]
    } else if says("self_attn") {
        &[Module::Attention]
    } else if says("linear_attn") {
        &[Module::Linear]
    } else if says("shared_expert") {
        &[Module::Shared]
    } else if says("experts") {
        &[Module::Experts]
    } else if says("mlp.") || says("mlp\\.(") || says("mlp") && shape.model_type == "gemma4" {
        &[Module::Dense]
    } else if says("mlp") {
        &Module::MLP
    } else if says("lm_head") {
        &[Module::Head]
    } else {
        &[]
    }
}

/// The layer of a module's name and what follows it; `None` for a name without one.
fn split(name: &str) -> Option<(Option<u64>, &str)> {
    let (_, rest) = name.split_once("layers.")?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (number, rest) = rest.split_at(end);
    match (number, rest.strip_prefix('*')) {
        ("", Some(rest)) if rest.starts_with('.') => Some((None, rest)),
        ("", _) => None,
        _ => number.parse().ok().map(|number| (Some(number), rest)),
    }
}

/// Adds the layers of one name to the modules that it speaks of.
fn cover(covered: &mut [Layers; Module::ALL.len()], shape: &Shape, name: &str) {
    // layers of a drafter are numbered anew
    if name.starts_with("mtp") {
        return;
    }
    let (layer, rest) = split(name).unwrap_or((None, name));
    let rest = rest.trim_end_matches(['*', '.']);
    let spoken: &[Module] = if rest.is_empty() && layer.is_some() {
        &Module::ALL[..Module::Head as usize]
    } else {
        modules(shape, rest)
    };
    for module in spoken {
        let covered = &mut covered[*module as usize];
        match layer {
            Some(layer) => covered.add(layer),
            None => *covered = Layers([u64::MAX; (MOST_LAYERS / 64) as usize]),
        }
    }
}

/// Whether all of a kind of module are among these layers, or none; `None`, some.
fn all_or_none(covered: &Layers, shape: &Shape, module: Module) -> Option<bool> {
    let mut which = (0..shape.layers)
        .filter(|layer| shape.has(module, *layer))
        .map(|layer| covered.has(layer));
    let Some(first) = which.next() else {
        return Some(true);
    };
    which.all(|one| one == first).then_some(first)
}

/// One scheme, and a list of what it leaves out.
fn ignored(
    quantization: &Value,
    shape: &Shape,
    kept: Kept,
    scales: LoadedScales,
) -> Result<Scheme, Box<ModelError>> {
    let mut covered = [Layers::default(); Module::ALL.len()];
    let list = super::fields::array(quantization, "ignore")?.unwrap_or_default();
    for name in list.iter().filter_map(Value::as_str) {
        cover(&mut covered, shape, name);
    }
    let mut scheme = Scheme::all(kept, scales).but(Module::Head, kept);
    for module in Module::ALL {
        match all_or_none(&covered[module as usize], shape, module) {
            Some(true) => scheme = scheme.but(module, Kept::Plain),
            Some(false) => {}
            None => return Ok(Scheme::Other("quantisation of some layers".to_owned())),
        }
    }
    Ok(scheme)
}

/// A list of what is quantised, and how.
fn mixed(
    quantization: &Value,
    shape: &Shape,
    scales: LoadedScales,
) -> Result<Scheme, Box<ModelError>> {
    let other = || Ok(Scheme::Other("quantisation of some layers".to_owned()));
    let Some(Value::Object(layers)) = quantization.get_set("quantized_layers") else {
        return other();
    };
    let mut scheme = Scheme::all(Kept::Plain, scales);
    for (algorithm, kept) in [
        ("FP8", Kept::Fp8Tensor),
        ("NVFP4", Kept::Nvfp4),
        ("W4A16_NVFP4", Kept::Nvfp4Weights),
    ] {
        let mut covered = [Layers::default(); Module::ALL.len()];
        for (name, how) in layers {
            if how.get("quant_algo").and_then(Value::as_str) == Some(algorithm) {
                cover(&mut covered, shape, name);
            }
        }
        for module in Module::ALL {
            let has = (0..shape.layers).any(|layer| shape.has(module, layer));
            match all_or_none(&covered[module as usize], shape, module) {
                Some(true) if has => scheme = scheme.but(module, kept),
                Some(_) => {}
                None => return other(),
            }
        }
    }
    Ok(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        model_type: "glm_moe_dsa",
        layers: 4,
        dense: 1,
        linear: &|_| false,
    };

    fn kept(names: &[&str]) -> Scheme {
        let word = |name: &&str| Value::String((*name).to_owned());
        let list = Value::Array(names.iter().map(word).collect());
        let quantization = Value::Object(vec![("ignore".to_owned(), list)]);
        ignored(&quantization, &SHAPE, Kept::Nvfp4, LoadedScales::All).unwrap()
    }

    #[test]
    fn a_list_of_what_is_left_out_is_taken_kind_by_kind() {
        let whole = kept(&["lm_head", "model.layers.0*", "model.layers.*.self_attn*"]);
        let plain = [
            Module::Attention,
            Module::Dense,
            Module::Linear,
            Module::Head,
        ];
        let Scheme::Known { kept: got, .. } = whole else {
            panic!("{whole:?}")
        };
        for module in Module::ALL {
            let want = if plain.contains(&module) {
                Kept::Plain
            } else {
                Kept::Nvfp4
            };
            assert_eq!(got[module as usize], want, "{module:?}");
        }
        let some = kept(&["lm_head", "model.layers.2.self_attn*"]);
        assert_eq!(
            some,
            Scheme::Other("quantisation of some layers".to_owned())
        );
    }

    #[test]
    fn names_have_layers() {
        assert_eq!(split("model.layers.12.mlp"), Some((Some(12), ".mlp")));
        assert_eq!(split("model.layers.0*"), Some((Some(0), "*")));
        assert_eq!(split("a.layers.*.mlp"), Some((None, ".mlp")));
        assert_eq!(split("lm_head"), None);
    }
}
