//! The contents of the view: a run in progress, drawn on a frame of any size.

use engine::plan::Plan;
use engine::plan::endpoint::Endpoint;
use engine::run::RunProgress;
use engine::shard::CoarseHistogram;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Axis, Block, Chart, Dataset, GraphType, Paragraph, RenderDirection, Row, Sparkline, Table,
};

use super::history::{History, Past};
use crate::recent::Second;
use crate::text::figures::{coarse, count, rate, time};
use crate::text::progress;

/// The state of a run.
pub(super) struct Screen<'a> {
    /// Its completed plan.
    pub(super) plan: &'a Plan,
    /// Its progress.
    pub(super) now: &'a RunProgress,
    /// Its figures of the last second.
    pub(super) second: Option<&'a Second>,
    /// Its earlier seconds.
    pub(super) history: &'a History,
    /// The core that draws; `None` if all allowed ones carry shards.
    pub(super) core: Option<usize>,
}

/// Columns of the figures next to a chart.
const LABELS: u16 = 9;

/// The shade of a share of a second's requests, from the lowest share on.
const SHADES: [(f64, &str, Color); 4] = [
    (0.3, "█", Color::Red),
    (0.1, "▓", Color::Yellow),
    (0.01, "▒", Color::Cyan),
    (0.0, "░", Color::Blue),
];

const INTENDED: Color = Color::Yellow;
const ANSWERED: Color = Color::Green;

/// Draws it.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen<'_>) {
    let parts = [
        Constraint::Length(2),
        Constraint::Length(7),
        Constraint::Min(4),
        Constraint::Length(6),
        Constraint::Length(1),
    ];
    let [head, rates, heat, last, foot] = Layout::vertical(parts).areas(frame.area());
    let [in_flight, lateness] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Length(38)]).areas(last);
    draw_head(frame, head, screen);
    draw_rates(frame, rates, screen);
    draw_heat(frame, heat, screen);
    draw_in_flight(frame, in_flight, screen);
    draw_lateness(frame, lateness, screen);
    draw_foot(frame, foot, screen);
}

/// The number of columns of a panel that show one second each.
fn columns(panel: Rect) -> u16 {
    panel.width.saturating_sub(LABELS + 2)
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, screen: &Screen<'_>) {
    let Screen { plan, now, second, .. } = *screen;
    let mut target = Endpoint::parse(&plan.target).map_or(String::new(), |endpoint| {
        // A query may be a secret.
        let path = endpoint.path.split('?').next().unwrap_or_default();
        format!("{}{path}", endpoint.origin())
    });
    target.push_str(&format!("  {} bad  ", count(now.bad())));
    let generator = match second.and_then(|second| second.trouble(plan)) {
        None => Span::raw(""),
        Some(Ok(())) => Span::styled(progress::generator(Ok(())), Color::Green),
        Some(trouble) => Span::styled(progress::generator(trouble), Color::Red).bold(),
    };
    let lines = [
        Line::from(vec![Span::raw("truetail  ").bold(), Span::raw(target), generator]),
        Line::raw(progress::phase_of(plan, now)),
    ];
    frame.render_widget(Paragraph::new(lines.to_vec()), area);
}

fn draw_rates(frame: &mut Frame<'_>, area: Rect, screen: &Screen<'_>) {
    let columns = columns(area);
    let points = |of: fn(&Second) -> f64| -> Vec<(f64, f64)> {
        let seconds = screen.history.last(columns.into()).rev();
        seconds.enumerate().map(|(ago, past)| (-(ago as f64), of(&past.second))).collect()
    };
    let (intended, answered) = (points(|second| second.intended), points(|second| second.answered));
    let most = intended.iter().chain(&answered).map(|(_, rate)| *rate).fold(1.0, f64::max);
    let now = |of: fn(&Second) -> f64| screen.second.map_or("n/a".to_owned(), |now| rate(of(now)));
    let title = Line::from(vec![
        Span::raw(" per second: "),
        Span::styled(format!("• intended {}", now(|second| second.intended)), INTENDED),
        Span::raw(", "),
        Span::styled(format!("⠒ answered {} ", now(|second| second.answered)), ANSWERED),
    ]);
    let line = |marker, colour, points| {
        let set = Dataset::default().marker(marker).graph_type(GraphType::Line);
        set.style(Style::new().fg(colour)).data(points)
    };
    let datasets =
        vec![line(Marker::Dot, INTENDED, &intended), line(Marker::Braille, ANSWERED, &answered)];
    let label = |rate: String| format!("{rate:>width$}", width = usize::from(LABELS) - 1);
    let chart = Chart::new(datasets)
        .block(Block::bordered().title(title))
        .x_axis(Axis::default().bounds([1.0 - f64::from(columns.max(2)), 0.0]))
        .y_axis(
            Axis::default()
                .bounds([0.0, 1.1 * most])
                .labels([label("0".into()), label(rate(most))]),
        );
    frame.render_widget(chart, area);
}

fn draw_heat(frame: &mut Frame<'_>, area: Rect, screen: &Screen<'_>) {
    let shown = |quantile| match screen.second {
        Some(second) => coarse(&second.latency, quantile),
        None => "n/a".to_owned(),
    };
    let mut title =
        vec![Span::raw(format!(" corrected latency: p50 {}, p99 {}  ", shown(0.5), shown(0.99)))];
    for ((_, shade, colour), share) in SHADES.iter().rev().zip(["any", "1 %", "10 %", "30 %"]) {
        title.extend([Span::styled(*shade, *colour), Span::raw(format!(" {share} "))]);
    }
    let block = Block::bordered().title(Line::from(title));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let seconds: Vec<&Past> = screen.history.last(columns(area).into()).collect();
    let bands = bands(seconds.iter().map(|past| &past.second.latency), inner.height);
    for (row, band) in bands.iter().enumerate() {
        let y = inner.bottom() - 1 - u16::try_from(row).expect("a band has a row of the screen");
        let from = time(CoarseHistogram::from_ns(band.start) as f64 / 1e3);
        let label = format!("{from:>width$}", width = usize::from(LABELS) - 1);
        frame.buffer_mut().set_string(inner.x, y, label, Style::new());
        for (x, past) in (inner.x..inner.right()).rev().zip(seconds.iter().rev()) {
            let latency = &past.second.latency;
            let share = within(latency, band) as f64 / latency.count().max(1) as f64;
            let shade = SHADES.iter().find(|(least, ..)| *least < share);
            if let Some((_, shade, colour)) = shade {
                frame.buffer_mut().set_string(x, y, shade, *colour);
            }
        }
    }
}

/// At most `most` ranges of buckets, of equal length, from the lowest with a latency to the
/// highest.
fn bands<'a>(
    of: impl Iterator<Item = &'a CoarseHistogram>,
    most: u16,
) -> Vec<std::ops::Range<usize>> {
    let filled = |histogram: &CoarseHistogram| {
        let mut filled = (0_usize..).zip(histogram.counts()).filter(|(_, count)| 0 < **count);
        let first = filled.next().map(|(at, _)| at)?;
        Some((first, filled.last().map_or(first, |(at, _)| at)))
    };
    let ends = of.filter_map(filled).reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
    let (Some((first, last)), 1..) = (ends, most) else { return Vec::new() };
    let each = (last + 1 - first).div_ceil(usize::from(most));
    (first..=last).step_by(each).map(|start| start..start + each).collect()
}

/// The number of latencies in these buckets.
fn within(latency: &CoarseHistogram, band: &std::ops::Range<usize>) -> u64 {
    latency.counts().iter().take(band.end).skip(band.start).sum()
}

fn draw_in_flight(frame: &mut Frame<'_>, area: Rect, screen: &Screen<'_>) {
    let newest_first = screen.history.last(area.width.into()).rev();
    let most = newest_first.clone().map(|past| past.in_flight).max().unwrap_or(0);
    let title = format!(" in flight: {}, at most {} ", count(screen.now.in_flight), count(most));
    let block = Block::bordered().title(title);
    let line = Sparkline::default()
        .data(newest_first.map(|past| past.in_flight))
        .direction(RenderDirection::RightToLeft)
        .style(ANSWERED);
    frame.render_widget(line.block(block), area);
}

fn draw_lateness(frame: &mut Frame<'_>, area: Rect, screen: &Screen<'_>) {
    let health = screen.second.and_then(|second| second.health.as_ref());
    let lateness = health.map(|health| &health.lateness);
    let row = |name: &'static str, histogram: Option<&CoarseHistogram>| {
        let shown = |quantile| {
            let shown = histogram.map_or("n/a".to_owned(), |histogram| coarse(histogram, quantile));
            format!("{shown:>9}")
        };
        Row::new([name.to_owned(), shown(0.5), shown(0.99)])
    };
    let rows = [
        row("pacer", lateness.map(|lateness| &lateness.pacer)),
        row("send path", lateness.map(|lateness| &lateness.send_path)),
        row("receive", lateness.map(|lateness| &lateness.receive)),
    ];
    let widths = [Constraint::Length(14), Constraint::Length(9), Constraint::Length(9)];
    let head = Row::new(["", "      p50", "      p99"]);
    let table = Table::new(rows, widths).header(head);
    frame.render_widget(table.block(Block::bordered().title(" the generator's lateness ")), area);
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, screen: &Screen<'_>) {
    let core = match screen.core {
        Some(core) => format!("drawn on core {core}"),
        None => "drawn on a shard's core: no other is free".to_owned(),
    };
    let keys = "q leaves, the run goes on; Ctrl-C stops it";
    let [left, right] =
        Layout::horizontal([Constraint::Length(44), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Line::raw(keys).bold(), left);
    frame.render_widget(Line::raw(core).right_aligned(), right);
}

#[cfg(test)]
mod tests {
    use engine::run::{Health, Phase};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    /// A minute and a half at 5,000 requests a second; the target stops for five seconds of it.
    fn history() -> History {
        let mut history = History::default();
        for second in 0..90_u64 {
            let stops = (60..65).contains(&second);
            let mut latency = CoarseHistogram::default();
            (0..900).for_each(|_| latency.record(250_000));
            (0..80).for_each(|_| latency.record(600_000));
            let tail_ns = if stops { 2_000_000_000 } else { 3_000_000 };
            (0..20).for_each(|_| latency.record(tail_ns));
            let answered = if stops { 1_000.0 } else { 5_000.0 };
            let second = Second { intended: 5_000.0, answered, latency, health: None };
            history.push(Past { second, in_flight: if stops { 900 } else { 4 } });
        }
        history
    }

    fn drawn(width: u16, height: u16, core: Option<usize>, empty: bool) -> String {
        drawn_of("http://127.0.0.1:8080/x?token=secret", (width, height), core, empty)
    }

    fn drawn_of(
        url: &str,
        (width, height): (u16, u16),
        core: Option<usize>,
        empty: bool,
    ) -> String {
        let target = url.to_owned();
        let rate = Some("5k".parse().expect("a rate"));
        let plan = Plan { target, rate, ..Plan::default() }.complete(&[1]).expect("a plan");
        let phase = if empty { Phase::Setup } else { Phase::Steady };
        let (elapsed_ns, in_flight) = (12_300_000_000, if empty { 0 } else { 4 });
        let now = RunProgress { phase, elapsed_ns, errors: 3, in_flight, ..RunProgress::default() };
        let history = if empty { History::default() } else { history() };
        let mut health = Health::default();
        (0..2_000).for_each(|_| health.lateness.pacer.record(9_000));
        (0..2_000).for_each(|_| health.lateness.receive.record(30_000));
        let second = history.last(1).next().map(|past| past.second.clone());
        let second = second.map(|second| Second { health: Some(health), ..second });
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        let screen =
            Screen { plan: &plan, now: &now, second: second.as_ref(), history: &history, core };
        terminal.draw(|frame| draw(frame, &screen)).expect("drawn");
        let text = terminal.backend().to_string();
        assert!(!text.contains("secret"), "{text}");
        text
    }

    #[test]
    fn a_run_on_80_columns() {
        insta::assert_snapshot!(drawn(80, 24, Some(0), false), @r#"
        "truetail  http://127.0.0.1:8080/x  3 bad  generator ok                          "
        "steady 12.3 s, 23s left                                                         "
        "┌ per second: • intended 5,000, ⠒ answered 5,000 ──────────────────────────────┐"
        "│   5,000│⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⢤•••••⢠⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤│"
        "│        │                                      ⠘⡄    ⡜                        │"
        "│        │                                       ⡇    ⡇                        │"
        "│        │                                       ⢱   ⢰⠁                        │"
        "│       0│                                       ⠈⠉⠉⠉⠉                         │"
        "└──────────────────────────────────────────────────────────────────────────────┘"
        "┌ corrected latency: p50 254 µs, p99 3.01 ms  ░ any ▒ 1 % ▓ 10 % █ 30 % ───────┐"
        "│  604 ms                                        ▒▒▒▒▒                         │"
        "│  126 ms                                                                      │"
        "│ 27.3 ms                                                                      │"
        "│ 5.77 ms                                                                      │"
        "│ 1.18 ms ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒     ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒│"
        "│  246 µs █████████████████████████████████████████████████████████████████████│"
        "└──────────────────────────────────────────────────────────────────────────────┘"
        "┌ in flight: 4, at most 900 ─────────────┐┌ the generator's lateness ──────────┐"
        "│          █████                         ││                     p50       p99  │"
        "│          █████                         ││pacer            8.70 µs   8.70 µs  │"
        "│          █████                         ││send path            n/a       n/a  │"
        "│          █████                         ││receive          29.7 µs   29.7 µs  │"
        "└────────────────────────────────────────┘└────────────────────────────────────┘"
        "q leaves, the run goes on; Ctrl-C stops it                       drawn on core 0"
        "#);
    }

    #[test]
    fn a_run_on_140_columns() {
        insta::assert_snapshot!(drawn(140, 40, None, false), @r#"
        "truetail  http://127.0.0.1:8080/x  3 bad  generator ok                                                                                      "
        "steady 12.3 s, 23s left                                                                                                                     "
        "┌ per second: • intended 5,000, ⠒ answered 5,000 ──────────────────────────────────────────────────────────────────────────────────────────┐"
        "│   5,000│                                       ⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⢤•••••⢠⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤│"
        "│        │                                                                                                  ⠘⡄    ⡜                        │"
        "│        │                                                                                                   ⡇    ⡇                        │"
        "│        │                                                                                                   ⢱   ⢰⠁                        │"
        "│       0│                                                                                                   ⠈⠉⠉⠉⠉                         │"
        "└──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘"
        "┌ corrected latency: p50 254 µs, p99 3.01 ms  ░ any ▒ 1 % ▓ 10 % █ 30 % ───────────────────────────────────────────────────────────────────┐"
        "│                                                                                                                                          │"
        "│  1.48 s                                                                                                    ▒▒▒▒▒                         │"
        "│  940 ms                                                                                                                                  │"
        "│  604 ms                                                                                                                                  │"
        "│  403 ms                                                                                                                                  │"
        "│  252 ms                                                                                                                                  │"
        "│  168 ms                                                                                                                                  │"
        "│  109 ms                                                                                                                                  │"
        "│ 67.1 ms                                                                                                                                  │"
        "│ 46.1 ms                                                                                                                                  │"
        "│ 29.4 ms                                                                                                                                  │"
        "│ 18.9 ms                                                                                                                                  │"
        "│ 12.6 ms                                                                                                                                  │"
        "│ 7.86 ms                                                                                                                                  │"
        "│ 5.24 ms                                                                                                                                  │"
        "│ 3.41 ms                                                                                                                                  │"
        "│ 2.10 ms                                        ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒     ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒│"
        "│ 1.44 ms                                                                                                                                  │"
        "│  918 µs                                                                                                                                  │"
        "│  590 µs                                        ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒│"
        "│  393 µs                                                                                                                                  │"
        "│  246 µs                                        ██████████████████████████████████████████████████████████████████████████████████████████│"
        "└──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘"
        "┌ in flight: 4, at most 900 ─────────────────────────────────────────────────────────────────────────┐┌ the generator's lateness ──────────┐"
        "│                                                                      █████                         ││                     p50       p99  │"
        "│                                                                      █████                         ││pacer            8.70 µs   8.70 µs  │"
        "│                                                                      █████                         ││send path            n/a       n/a  │"
        "│                                                                      █████                         ││receive          29.7 µs   29.7 µs  │"
        "└────────────────────────────────────────────────────────────────────────────────────────────────────┘└────────────────────────────────────┘"
        "q leaves, the run goes on; Ctrl-C stops it                                                         drawn on a shard's core: no other is free"
        "#);
    }

    #[test]
    fn a_run_during_setup_on_80_columns() {
        insta::assert_snapshot!(drawn(80, 24, Some(0), true), @r#"
        "truetail  http://127.0.0.1:8080/x  3 bad                                        "
        "setup 12.3 s, up to 28s left                                                    "
        "┌ per second: • intended n/a, ⠒ answered n/a ──────────────────────────────────┐"
        "│       1│                                                                     │"
        "│        │                                                                     │"
        "│        │                                                                     │"
        "│        │                                                                     │"
        "│       0│                                                                     │"
        "└──────────────────────────────────────────────────────────────────────────────┘"
        "┌ corrected latency: p50 n/a, p99 n/a  ░ any ▒ 1 % ▓ 10 % █ 30 % ──────────────┐"
        "│                                                                              │"
        "│                                                                              │"
        "│                                                                              │"
        "│                                                                              │"
        "│                                                                              │"
        "│                                                                              │"
        "└──────────────────────────────────────────────────────────────────────────────┘"
        "┌ in flight: 0, at most 0 ───────────────┐┌ the generator's lateness ──────────┐"
        "│                                        ││                     p50       p99  │"
        "│                                        ││pacer                n/a       n/a  │"
        "│                                        ││send path            n/a       n/a  │"
        "│                                        ││receive              n/a       n/a  │"
        "└────────────────────────────────────────┘└────────────────────────────────────┘"
        "q leaves, the run goes on; Ctrl-C stops it                       drawn on core 0"
        "#);
    }

    #[test]
    fn the_url_is_shown_with_its_scheme() {
        let text = drawn_of("https://127.0.0.1:8443/x?token=secret", (80, 24), Some(0), false);
        assert!(text.contains("truetail  https://127.0.0.1:8443/x  "), "{text}");
    }

    #[test]
    fn no_size_is_too_small() {
        for width in [1, 5, 12, 40] {
            for height in [1, 3, 9, 14] {
                let text = drawn(width, height, None, false);
                assert_eq!(text.lines().count(), usize::from(height));
            }
        }
    }

    #[test]
    fn bands_cover_all_latencies_in_rows_of_equal_length() {
        let mut histogram = CoarseHistogram::default();
        assert!(bands([&histogram].into_iter(), 7).is_empty());
        histogram.record(1_100);
        assert_eq!(bands([&histogram].into_iter(), 7).first(), Some(&(0..1)));
        histogram.record(2_100);
        assert_eq!(bands([&histogram].into_iter(), 20).len(), 9);
        assert_eq!(bands([&histogram].into_iter(), 4), [0..3, 3..6, 6..9]);
        assert!(bands([&histogram].into_iter(), 0).is_empty());
        let both = bands([&histogram].into_iter(), 4);
        assert_eq!(both.iter().map(|band| within(&histogram, band)).sum::<u64>(), 2);
    }
}
