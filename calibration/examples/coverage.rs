//! Writes the study of interval coverage to the file named by its first argument; the second is the
//! number of runs for each service and length of the window.

use calibration::coverage::document;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or_else(|| std::io::Error::other("give a file to write to"))?;
    let runs = arguments.next().and_then(|runs| runs.parse().ok()).unwrap_or(100);
    std::fs::write(path, document(runs))
}
