//! Stacks: which parameters of a checkpoint make up each tensor of the layers. Training replaces
//! them.

use burn::prelude::*;

use super::{Layers, Linear, Norm};
use crate::decoder::config::layer_root;

/// Tensor, and the parameters that are its rows, one below the other.
pub(crate) struct Stack<'a> {
    /// Names of the parameters in a checkpoint that has all parameters of memory tokens.
    pub(crate) parts: Vec<String>,
    pub(crate) tensor: Stacked<'a>,
}

/// Reference to a tensor in its place.
pub(crate) enum Stacked<'a> {
    Matrix(&'a mut Tensor<2>),
    Vector(&'a mut Tensor<1>),
}

impl Layers {
    /// Returns the stacks of all layers, embeddings and norms.
    pub(crate) fn stacks(&mut self) -> Vec<Stack<'_>> {
        let mut stacks = vec![matrix("model.embed_tokens.weight", &mut self.words)];
        if let Some(word) = &mut self.memory_word {
            stacks.push(matrix("model.beacon_embed_tokens.weight", word));
        }
        stacks.push(norm("model.norm", &mut self.norm));
        let memory = self.config.memory.as_ref();
        for (index, layer) in self.layers.iter_mut().enumerate() {
            let root = layer_root(index);
            let named = |parts: &[&str]| -> Vec<String> {
                parts.iter().map(|part| format!("{root}.{part}")).collect()
            };
            let of_memory = |parts: &str| -> Vec<String> {
                let own = |part: char| memory.is_some_and(|memory| memory.has(part));
                let name = |part: char| {
                    let own = if own(part) { "beacon_" } else { "" };
                    format!("{root}.self_attn.{own}{part}_proj")
                };
                parts.chars().map(name).collect()
            };
            let of_words = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"];
            linear(named(&of_words), &mut layer.project, &mut stacks);
            linear(named(&["self_attn.o_proj"]), &mut layer.output, &mut stacks);
            if let Some(project) = &mut layer.memory.project {
                linear(of_memory("qkv"), project, &mut stacks);
            }
            if let Some(output) = &mut layer.memory.output {
                linear(of_memory("o"), output, &mut stacks);
            }
            linear(named(&["mlp.gate_proj", "mlp.up_proj"]), &mut layer.expand, &mut stacks);
            linear(named(&["mlp.down_proj"]), &mut layer.contract, &mut stacks);
            stacks.push(norm(&format!("{root}.input_layernorm"), &mut layer.attention_norm));
            stacks.push(norm(&format!("{root}.post_attention_layernorm"), &mut layer.feed_norm));
        }
        stacks
    }
}

fn matrix<'a>(name: &str, tensor: &'a mut Tensor<2>) -> Stack<'a> {
    Stack { parts: vec![name.to_owned()], tensor: Stacked::Matrix(tensor) }
}

fn norm<'a>(name: &str, norm: &'a mut Norm) -> Stack<'a> {
    Stack { parts: vec![format!("{name}.weight")], tensor: Stacked::Vector(&mut norm.weight) }
}

fn linear<'a>(names: Vec<String>, linear: &'a mut Linear, stacks: &mut Vec<Stack<'a>>) {
    let named = |part: &str| names.iter().map(|name| format!("{name}.{part}")).collect();
    stacks.push(Stack { parts: named("weight"), tensor: Stacked::Matrix(&mut linear.weight) });
    if let Some(bias) = &mut linear.bias {
        stacks.push(Stack { parts: named("bias"), tensor: Stacked::Vector(bias) });
    }
}

/// Returns the stack of a head: under its own name, or that of the embedding table if it is tied.
pub(crate) fn head_stack(head: &mut Linear, is_tied: bool) -> Stack<'_> {
    let name = if is_tied { "model.embed_tokens.weight" } else { "lm_head.weight" };
    matrix(name, &mut head.weight)
}
