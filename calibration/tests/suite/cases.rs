//! Every case of ground truth over real HTTP, at smoke size: the predictions hold, and the controls
//! measure less than users wait.

use anyhow::bail;
use calibration::cases::{Size, cases};
use calibration::judgement::Judgement;
use engine::plan::Wait;

use crate::support::{NotJudged, alone, check_up_to};

/// The most runs of a case that the machine disturbs.
const RUNS_MAX: usize = 6;

#[test]
fn each_case_measures_what_arithmetic_predicts_and_each_control_less() {
    let _cores = alone();
    let cases = cases(Size::Smoke, Wait::Hybrid);
    assert_eq!(cases.iter().filter(|case| case.is_control).count(), 2);
    for case in &cases {
        check_up_to(RUNS_MAX, &case.target, &case.plan, |observed| {
            let outcome = case.judge(observed)?;
            match outcome.judgement {
                Judgement::Passed => Ok(()),
                Judgement::NotJudged => bail!(NotJudged(format!("{outcome:#?}"))),
                Judgement::Failed => bail!("{outcome:#?}"),
            }
        });
    }
}
