//! The statistics against values computed by hand or published, and by their properties.

use super::*;

fn near(value: Option<f64>, expected: f64, tolerance: f64) {
    let value = value.expect("a value");
    assert!((value - expected).abs() <= tolerance, "{value}, expected {expected} ± {tolerance}");
}

#[test]
fn dispersion_computed_by_hand() {
    let even = |counts: &[u64]| {
        let windows: Vec<(u64, f64)> = counts.iter().map(|count| (*count, 0.5)).collect();
        index_of_dispersion(&windows)
    };
    assert_eq!(even(&[1, 3]), Some(Dispersion { windows: 2, index: 1.0 }));
    assert_eq!(even(&[4; 9]).expect("nine windows").index, 0.0);
    near(even(&[0, 0, 6]).map(|counted| counted.index), 6.0, 1e-12);
    assert_eq!(even(&[5]), None);
    assert_eq!(even(&[0, 0]), None);
    // Twelve events if 1, 2 and 3 parts of them are expected: 2, 4 and 6.
    let index = |counts: [u64; 3]| {
        let windows = [(counts[0], 1.0), (counts[1], 2.0), (counts[2], 3.0)];
        index_of_dispersion(&windows).map(|counted| counted.index)
    };
    assert_eq!(index([2, 4, 6]), Some(0.0));
    near(index([4, 4, 4]), (4.0 + 4.0) / 2.0 / 4.0, 1e-12);
    assert_eq!(index_of_dispersion(&[(1, 0.0), (1, 0.0)]), None, "nothing is expected");
}

/// Points as printed in tables: of the normal distribution, of Student's t at 2.5 %, of χ².
#[test]
fn points_are_those_of_the_tables() {
    for (p, expected) in [(0.5, 0.0), (0.05, 1.644_854), (0.005, 2.575_829), (0.000_05, 3.890_592)]
    {
        near(Some(normal_point(p)), expected, 1e-6);
    }
    for (degrees, expected) in [(4, 2.776), (9, 2.262), (29, 2.045), (120, 1.980)] {
        near(Some(student_t_point(degrees, 0.025)), expected, 5e-4);
    }
    for (degrees, p, expected) in
        [(4, 0.99, 13.277), (29, 0.99, 49.588), (29, 0.01, 14.256), (100, 0.999, 149.449)]
    {
        near(Some(chi_squared_point(degrees, p)), expected, 5e-4);
    }
}
