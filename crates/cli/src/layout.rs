//! `kvx layout`: what each kind of layer's page is made of.

use std::io;

use clap::ArgMatches;
use kv_cases::result_value;
use kv_resolver::{Refusal, Request, Resolution, StartupError, Value, resolve};

use crate::{Exit, lines, render, show};

pub fn run(matches: &ArgMatches) -> io::Result<Exit> {
    let (model, request) = show::release(matches, "release")
        .and_then(|release| show::request(matches, release, show::gpu(matches)?))
        .map_err(io::Error::other)?;
    let resolution = match resolve(&request) {
        Ok(resolution) => resolution,
        Err(error) => return stopped(matches, &model, &request, error),
    };
    let text = if matches.get_flag("json") {
        resolution.anatomy_json()
    } else {
        let beyond = render::beyond(&request);
        if matches.get_flag("c") {
            let mut heading = vec![format!("{model} on {}", request.gpu.name)];
            heading.extend(beyond);
            written(&resolution, &heading.join(". "), true)
        } else {
            let mut parts = beyond;
            parts.push(written(&resolution, "", false));
            parts.join("\n\n")
        }
    };
    lines::print(&text)?;
    Ok(Exit::of(resolution.outcome))
}

fn written(resolution: &Resolution, heading: &str, as_comments: bool) -> String {
    let kinds = resolution.anatomy();
    let texts = kinds.iter().map(|kind| {
        if as_comments {
            kind.c_comment(resolution, heading)
        } else {
            kind.lines(resolution).join("\n") + "\n"
        }
    });
    let texts: Vec<String> = texts.collect();
    texts.join("\n")
}

/// There are no pages where vLLM does not start.
fn stopped(
    matches: &ArgMatches,
    model: &str,
    request: &Request,
    error: StartupError,
) -> io::Result<Exit> {
    if let Refusal::BadCase(why) = &error.refusal {
        return Err(io::Error::other(why.clone()));
    }
    let outcome = error.refusal.outcome();
    let result = Err(error);
    let text = if matches.get_flag("json") {
        let value = result_value(&Value::Null, &result);
        serde_json::to_string_pretty(&value).map_err(io::Error::other)? + "\n"
    } else {
        render::answer(model, request, &result)
    };
    lines::print(&text)?;
    Ok(Exit::of(outcome))
}
