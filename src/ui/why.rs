//! Why: every decision, with vLLM's file and function.

use kv_resolver::trace::TraceStep;

use crate::answer::Answer;
use crate::markup::Markup;

/// The trace.
pub fn why(html: &mut Markup, answer: &Answer) {
    let steps: &[TraceStep] = match &answer.result {
        Ok(resolution) => &resolution.trace,
        Err(error) => &error.trace,
    };
    html.add(
        "<div class=\"why\"><h3>Why</h3><p class=\"hint\">Each decision in order, with the place in vLLM {} that makes \
         it.</p><ol>",
        &[answer.asked.release.version()],
    );
    for step in steps {
        html.add(
            "<li>{}<small>{} · <code>{}</code> · <code>{}</code></small></li>",
            &[
                &step.decided,
                step.stage.describe(),
                step.rule.function,
                step.rule.file,
            ],
        );
    }
    if answer.result.is_err() {
        html.add("<li class=\"ends\">Here it stops.</li>", &[]);
    }
    html.add("</ol></div>", &[]);
}
