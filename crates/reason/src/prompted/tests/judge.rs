//! The judge, with a scripted model.

use clew_core::{Cost, GradingRule, JudgeTask, Judging, Verdict};

use super::super::*;
use super::runner::{Scripted, soon};

fn task(judging: Judging, references: &[&str]) -> JudgeTask {
    JudgeTask {
        question: "How did he get out?".to_owned(),
        references: references.iter().map(|&text| text.to_owned()).collect(),
        answer: "By a thread.".to_owned(),
        judging,
    }
}

async fn judged(
    task: &JudgeTask,
    replies: &[&str],
) -> (Result<(Verdict, Cost), Error>, Vec<String>) {
    let model = Scripted::new(8000, replies);
    let judge = Judge::new(Prompted::new(model.clone()));
    let verdict = judge.judge(task, soon()).await;
    let asked = model.asked.lock().unwrap();
    let prompts = asked.iter().map(|request| request.messages[1].text.clone()).collect();
    (verdict, prompts)
}

#[tokio::test]
async fn an_answer_is_graded_beside_every_right_one() {
    let grade = |rule| Judging::Grade(rule);
    let both = task(grade(GradingRule::Complete), &["With a thread", "Led by Ariadne"]);
    for (reply, is_right) in [("yes", true), ("No.", false)] {
        let (verdict, prompts) = judged(&both, &[reply]).await;
        let (verdict, cost) = verdict.unwrap();
        assert_eq!((verdict, cost.model_calls), (Verdict::Graded(is_right), 1));
        assert!(prompts[0].contains("With a thread\nOr: Led by Ariadne"), "{}", prompts[0]);
        assert!(prompts[0].contains("By a thread."), "{}", prompts[0]);
    }
    let unknown = task(grade(GradingRule::Abstention), &[]);
    let (verdict, prompts) = judged(&unknown, &["no"]).await;
    assert_eq!(verdict.unwrap().0, Verdict::Graded(false));
    assert!(prompts[0].contains("It was never said."), "{}", prompts[0]);
}

#[tokio::test]
async fn an_open_answer_is_rated_twice() {
    let open = task(Judging::Rate, &["He followed a thread.", "Ariadne helped."]);
    let replies = [
        r#"{"reasoning": "Much is there.", "level": 4, "score": 70}"#,
        r#"{"reasoning": "One view.", "level": 1, "score": 15}"#,
    ];
    let (verdict, prompts) = judged(&open, &replies).await;
    let (verdict, cost) = verdict.unwrap();
    assert_eq!(verdict, Verdict::Rated { comprehensiveness: 0.7, diversity: 0.15 });
    assert_eq!(cost.model_calls, 2);
    assert!(cost.prompt_tokens > 0 && cost.completion_tokens > 0);
    assert!(prompts[1].contains("[2] Ariadne helped."), "{}", prompts[1]);
}

#[tokio::test]
async fn points_count_alike_and_half_where_they_are_partly_met() {
    let points = ["says: thread", "names Ariadne", "says no word of wings"].map(str::to_owned);
    let points = task(Judging::Nuggets(points.to_vec()), &[]);
    let (verdict, prompts) = judged(&points, &["yes", "partly", "no"]).await;
    let (verdict, cost) = verdict.unwrap();
    assert_eq!((verdict, cost.model_calls), (Verdict::Nuggets(0.5), 3));
    assert!(prompts[1].contains("names Ariadne") && !prompts[1].contains("wings"));
}

#[tokio::test]
async fn what_is_judged_in_part_is_not_judged() {
    let points = ["says: thread", "names Ariadne"].map(str::to_owned);
    let points = task(Judging::Nuggets(points.to_vec()), &[]);
    let (verdict, _) = judged(&points, &["yes"]).await;
    assert_eq!(verdict.unwrap_err().reason(), "MODEL_GONE");
    let (verdict, _) = judged(&points, &["yes", "Well.", "Hm.", "Perhaps."]).await;
    assert_eq!(verdict.unwrap_err().reason(), "UNREADABLE_REPLY");
    let (verdict, prompts) = judged(&task(Judging::Nuggets(Vec::new()), &[]), &["yes"]).await;
    assert_eq!(verdict.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(prompts.is_empty());
}
