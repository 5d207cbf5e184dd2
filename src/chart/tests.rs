//! Over the whole catalog, and over pools and lengths of every size.

use kv_resolver::catalog::MODELS;

use super::*;

const GIB: u64 = 1 << 30;
const FLASH: &str = "deepseek-ai/DeepSeek-V4-Flash";

fn resolved(model: &str, max_model_len: &str, gib: u64) -> Option<Resolution> {
    let case = format!(
        r#"{{"model":"{model}","gpu":"h200","args":{{"tensor_parallel_size":8{max_model_len}}},
        "env":{{"VLLM_ALLOW_LONG_MAX_MODEL_LEN":"1"}},"available_memory":{}}}"#,
        gib * GIB
    );
    kv_cases::answer(&case.replace('\n', ""), 1).result.ok()
}

fn at_length(length: u64, gib: u64) -> Resolution {
    resolved(FLASH, &format!(r#","max_model_len":{length}"#), gib).unwrap()
}

fn texts(ticks: &[Tick]) -> Vec<&str> {
    ticks.iter().map(|tick| &*tick.text).collect()
}

fn assert_inside(plot: &Plot, what: &str) {
    let points = plot.shapes.iter().flat_map(|shape| &shape.outline);
    let points = points.chain(plot.lines.iter().flatten());
    for Point { x, y } in points.chain([&plot.here]) {
        // NaN is in no range
        let all = -1e-6..=100.0 + 1e-6;
        assert!(all.contains(x) && all.contains(y), "{what}: {x} {y}");
    }
    let sides = plot.lengths.iter().chain(&plot.heights);
    let level = plot.level.iter().filter_map(|level| level.at);
    let band = plot.level.iter().filter_map(|level| level.band).flatten();
    let places = sides.map(|tick| tick.at).chain(plot.keys.iter().copied());
    for at in places.chain(level).chain(band) {
        assert!((-1e-6..=100.0 + 1e-6).contains(&at), "{what}: {at}");
    }
    for ticks in [&plot.lengths, &plot.heights] {
        assert!((2..=10).contains(&ticks.len()), "{what}: {ticks:?}");
    }
}

fn assert_sound(resolution: &Resolution, pools: Option<[u64; 3]>, what: &str) {
    let charts = Charts::new(resolution, pools);
    assert_inside(&charts.memory, what);
    assert_eq!(charts.memory.keys.len(), resolution.groups.len());
    assert_eq!(charts.requests.is_some(), pools.is_some());
    if let Some(plot) = &charts.requests {
        assert_inside(plot, what);
        let is_falling = |line: &Vec<Point>| line.is_sorted_by(|a, b| a.x <= b.x && a.y <= b.y);
        assert!(plot.lines.iter().all(is_falling), "{what}");
    }
    assert!(charts.table.is_sorted_by(|a, b| a.length < b.length));
    for row in &charts.table {
        assert_eq!(row.by_group.iter().sum::<u64>(), row.total, "{what}");
    }
    assert_stacked(&charts.memory, resolution, what);
}

/// Each layer begins where the one above it ends, and the last ends at the axis.
fn assert_stacked(plot: &Plot, resolution: &Resolution, what: &str) {
    let halves: Vec<(&[Point], Vec<Point>)> = plot
        .shapes
        .iter()
        .map(|shape| {
            let (top, bottom) = shape.outline.split_at(shape.outline.len() / 2);
            (top, bottom.iter().rev().copied().collect())
        })
        .collect();
    for pair in halves.windows(2) {
        assert_eq!(pair[0].1, pair[1].0, "{what}");
    }
    let (top, bottom) = (halves[0].0, &halves[halves.len() - 1].1);
    assert!(bottom.iter().all(|point| (point.y - 100.0).abs() < 1e-9));
    assert!(
        top.is_sorted_by(|a, b| a.x <= b.x && a.y >= b.y),
        "{what}: a longer request takes no less"
    );
    let here = top
        .iter()
        .find(|point| (point.x - plot.here.x).abs() < 1e-9);
    let is_on_top = here.is_some_and(|point| (point.y - plot.here.y).abs() < 0.5);
    assert!(is_on_top, "{what}: {} tokens", resolution.max_model_len);
}

#[test]
fn every_model_is_drawn_soundly() {
    let mut count = 0;
    for model in &MODELS {
        let id = model.id;
        let Some(resolution) = resolved(id, "", 90) else {
            continue;
        };
        count += 1;
        let pools = [0, 1, GIB / 3, 90 * GIB, u64::MAX];
        for pool in pools {
            assert_sound(&resolution, Some([pool; 3]), id);
            assert_sound(&resolution, Some([pool / 2, pool, pool]), id);
            assert_sound(&resolution, Some([0, pool / 2, pool]), id);
        }
        assert_sound(&resolution, None, id);
    }
    assert!(count > 20, "{count}");
}

#[test]
fn every_length_is_drawn_soundly() {
    for length in [1, 17, 1000, 8192, 1 << 20, 5_000_000, 1 << 40] {
        let resolution = at_length(length, 1 << 22);
        for pool in [GIB, u64::MAX] {
            assert_sound(&resolution, Some([pool; 3]), &length.to_string());
        }
    }
}

#[test]
fn the_chosen_length_says_what_the_answer_says() {
    let resolution = at_length(262_144, 40);
    let charts = Charts::new(&resolution, Some([40 * GIB; 3]));
    assert_eq!(charts.memory.here_text, "262,144 · 7.19 GiB");
    let requests = charts.requests.unwrap();
    assert_eq!(requests.here_text, "262,144 · 5.56×");
    assert_eq!(resolution.capacity.unwrap().requests, "5.56");
    let curve = &requests.lines[0];
    assert!(curve.contains(&requests.here));
    let row = charts.table.iter().find(|row| row.length == 262_144);
    let row = row.unwrap();
    assert_eq!(row.total, resolution.request_bytes);
    assert_eq!(row.requests.unwrap()[1].shown(), "5.56");
    let groups = resolution.groups.iter();
    assert!(row.by_group.iter().eq(groups.map(|it| &it.request_bytes)));
}

#[test]
fn a_shortened_request_is_the_chosen_one() {
    let resolution = resolved(FLASH, r#","max_model_len":-1"#, 7).unwrap();
    let charts = Charts::new(&resolution, Some([7 * GIB; 3]));
    let fitted = resolution.max_model_len;
    assert!((1024..1 << 20).contains(&fitted) && !fitted.is_power_of_two());
    assert!(charts.table.iter().any(|row| row.length == fitted));
    let requests = charts.requests.unwrap();
    assert!(requests.here_text.starts_with(&text::number(fitted)));
    // of what fits just once, the mark is on the axis
    assert!(requests.here.y > 99.0, "{:?}", requests.here);
}

#[test]
fn a_pool_is_drawn_to_scale_only_where_that_leaves_the_stack_its_height() {
    let resolution = at_length(262_144, 40);
    let level = |pools| Charts::new(&resolution, Some(pools)).memory.level.unwrap();
    let far = level([40 * GIB; 3]);
    assert_eq!((far.at, &*far.text), (None, "pool 40 GiB ↑ above"));
    let near = level([15 * GIB; 3]);
    assert!(near.at.is_some() && near.band.is_none());
    assert_eq!(near.text, "pool 15 GiB");
    let wide = level([12 * GIB, 15 * GIB, 18 * GIB]);
    let (at, [top, bottom]) = (wide.at.unwrap(), wide.band.unwrap());
    assert!(top < at && at < bottom);
    assert_eq!(wide.text, "pool ≈ 15 GiB");
    // its least alone is in the plot
    let cut = level([5 * GIB, 90 * GIB, 100 * GIB]);
    assert_eq!((cut.at, cut.band.unwrap()[0]), (None, 0.0));
    // with the pool far above, the stack keeps its own scale
    let alone = Charts::new(&resolution, None).memory;
    let under = Charts::new(&resolution, Some([900 * GIB; 3])).memory;
    assert_eq!(alone.shapes, under.shapes);
}

#[test]
fn a_pool_in_words() {
    let resolution = at_length(262_144, 40);
    let words = |pools| Charts::new(&resolution, Some(pools)).pool_words.unwrap();
    assert_eq!(words([0; 3]), "A pool of 0 GiB does not hold one request.");
    assert!(words([40 * GIB; 3]).starts_with("A pool of 40 GiB holds one request of up to "));
    let wide = words([30 * GIB, 40 * GIB, 50 * GIB]);
    assert!(
        wide.starts_with("A pool of 40 GiB (30–50 GiB) holds "),
        "{wide}"
    );
    assert!(wide.contains(") tokens. The bands"), "{wide}");
}

#[test]
fn the_requests_that_run_at_once_are_a_level_where_more_fit() {
    let resolution = at_length(8192, 80);
    let level = |pool| {
        let charts = Charts::new(&resolution, Some([pool; 3]));
        charts.requests.unwrap().level
    };
    let text = level(2000 * GIB).map(|level| level.text);
    assert_eq!(text.as_deref(), Some("max_num_seqs 1,024"));
    assert_eq!(level(10 * GIB), None);
}

#[test]
fn figures_are_told_in_words_and_read_at_round_values() {
    let resolution = at_length(262_144, 40);
    let charts = Charts::new(&resolution, Some([40 * GIB; 3]));
    let words = charts.memory.words;
    assert!(words.contains("7.19 GiB at 262,144 tokens"), "{words}");
    assert!(words.ends_with("; pool 40 GiB ↑ above"), "{words}");
    assert_eq!(
        texts(&charts.memory.heights),
        ["0", "2 GiB", "4 GiB", "6 GiB", "8 GiB", "10 GiB", "12 GiB"]
    );
    let words = charts.requests.unwrap().words;
    assert!(words.contains("5.56× at 262,144 tokens"), "{words}");
}
