//! Times that questions ask about.

use super::super::asked_about;
use super::check;

#[test]
fn a_question_asks_about_the_time_that_it_names() {
    check(
        "2023-05-24T18:00:00Z", // a Wednesday
        &[
            ("Which airline did I fly with the most in March and April?", "2023-03-01 2023-05-01"),
            ("What did you recommend last weekend?", "2023-05-20 2023-05-22"),
            ("When did I go camping in June?", "2022-06-01 2022-07-01"),
            ("How many days did I ski in January?", "2023-01-01 2023-02-01"),
            ("What time did I reach the office on Monday?", "2023-05-22"),
            ("I mentioned a race two weeks ago. What was it?", "2023-05-07 2023-05-14"),
            ("What have I cooked since I began three weeks ago?", "2023-04-30 .."),
            ("What did I cook before I moved in March?", ".. 2023-04-01"),
            ("What did I buy after the phone came out in April?", "2023-04-01 .."),
            ("What did I cook after work on 3 May 2023?", "2023-05-03"),
            ("What did I cook this morning?", "2023-05-24"),
            ("What did I tell you at 9 am yesterday?", "2023-05-23"),
            ("What did I do last night?", "2023-05-23 2023-05-25"),
            ("What did I spend this month?", "2023-05-01 2023-06-01"),
            ("How far did I run a few weeks ago compared to now?", "2023-04-16 .."),
            ("How many games had I won by March 3?", ".. 2023-03-04"),
            ("What did I say last Friday, on 12 May 2023?", "2023-05-12"),
            ("What was it last week, as I said on 3 May 2023?", "2023-05-03"),
            ("In 2022, what did I plant in May 2022?", "2022-05-01 2022-06-01"),
            ("Did I run more on 3 May 2023 or on 6 May 2023?", "2023-05-03 2023-05-07"),
            ("Why does he ask about it on 20230507?", "2023-05-07"),
            ("What did I eat at Easter?", "2023-04-09"),
            ("How many days was I ill between 3 May and 9 May?", "2023-05-03 2023-05-10"),
            ("What have I read in the past month?", "2023-04-24 2023-05-25"),
        ],
        asked_about,
    );
}

#[test]
fn no_time_is_guessed() {
    check(
        "2023-05-24T18:00:00Z",
        &[
            // The kinds of false positives in appendix E.4.
            ("How long had I been taking swimming lessons when I got the goggles?", ""),
            ("How many days before the 'Winter Fair' did I join the 'Tuesday Sprint'?", ""),
            ("Which shrubs were planted first, the lilacs or the roses?", ""),
            // The question asks for a time.
            ("When did I buy the kettle?", ""),
            ("How many days ago did I buy the kettle?", ""),
            ("How many months have passed since I last saw her in March?", ""),
            ("How many weeks between the move in March and the party in May?", ""),
            ("How long have I had my dog since March?", ""),
            ("How many days before the party in May did I buy the cake?", ""),
            ("How old was I last year?", ""),
            ("What year did I graduate?", ""),
            ("Which month was the driest?", ""),
            // A duration or a habit.
            ("Where did I go on a two-week trip?", ""),
            ("What is my 5-day plan?", ""),
            ("What time do I get up on Saturday?", ""),
            ("What do I usually cook in March?", ""),
            ("What did I do every Monday?", ""),
            ("Which clock did I set to 24-hour time?", ""),
            // A name or another word.
            ("What did May ask me?", ""),
            ("May I ask what I said?", ""),
            ("Did we march 10 miles?", ""),
            ("Who wore their Sunday best?", ""),
            ("Who came second?", ""),
            ("Did I like The Day After Tomorrow?", ""),
            ("Who recommended 'Last Week in May'?", ""),
            ("What music of the 80s do I like?", ""),
            ("Which laptop costs $2023?", ""),
            ("Did I update to version 2023.05.1?", ""),
            // The future.
            ("What am I doing next month?", ""),
            ("What will I own by 2030?", ""),
            ("Can you recommend an event for this weekend?", ""),
            ("Any tips for tonight?", ""),
            ("What would suit me to wear today?", ""),
            ("Should I paint the door this week?", ""),
            // The time of something else.
            ("Who paid the rent for last month?", ""),
            ("What did I do recently?", ""),
            ("What did I do after the trip?", ""),
            ("", ""),
        ],
        asked_about,
    );
}
