//! Expressions relative to the time at which they are said.

use super::{check, mentioned};

#[test]
fn days_are_counted_from_today() {
    check(
        "2024-05-15T10:00:00Z", // a Wednesday
        &[
            ("I saw it today", "2024-05-15"),
            ("YESTERDAY I SAW IT", "2024-05-14"),
            ("I saw yesterday's match", "2024-05-14"),
            ("the day before yesterday", "2024-05-13"),
            ("I leave tomorrow", "2024-05-16"),
            ("the day after tomorrow", "2024-05-17"),
            ("I stay in tonight", "2024-05-15T18:00 2024-05-16T06:00"),
            ("I slept badly last night", "2024-05-14T18:00 2024-05-15T06:00"),
            ("I ran this morning", "2024-05-15T05:00 2024-05-15T12:00"),
            ("this afternoon", "2024-05-15T12:00 2024-05-15T18:00"),
            ("yesterday evening", "2024-05-14T17:00 2024-05-15T00:00"),
            ("yesterday at 9 am", "2024-05-14T09:00 2024-05-14T10:00"),
            ("at 9:30 pm yesterday", "2024-05-14T21:30 2024-05-14T21:31"),
            ("yesterday at noon", "2024-05-14T12:00 2024-05-14T13:00"),
            ("at midnight yesterday", "2024-05-15T00:00 2024-05-15T01:00"),
            ("three days ago", "2024-05-12"),
            ("3 days ago", "2024-05-12"),
            ("forty-five days ago", "2024-03-31"),
            ("a couple of days ago", "2024-05-12 2024-05-14"),
            ("a few days ago", "2024-05-10 2024-05-14"),
            ("two or three days ago", "2024-05-12 2024-05-14"),
            ("5 hours ago", "2024-05-15T04:30 2024-05-15T05:30"),
            ("in the last two hours", "2024-05-15T08:00 2024-05-15T10:01"),
            ("ten minutes back", "2024-05-15T09:49:30 2024-05-15T09:50:30"),
            ("three days from now", "2024-05-18"),
            ("I will be back in three days", "2024-05-18"),
            ("I built it in three days", ""),
            ("the other day", ""),
            ("the next day", ""),
        ],
        mentioned,
    );
}

#[test]
fn weeks_begin_on_monday() {
    check(
        "2024-05-15T10:00:00Z", // a Wednesday
        &[
            ("this week", "2024-05-13 2024-05-20"),
            ("last week", "2024-05-06 2024-05-13"),
            ("in last week's meeting", "2024-05-06 2024-05-13"),
            ("next week", "2024-05-20 2024-05-27"),
            ("the week before last", "2024-04-29 2024-05-06"),
            ("the weekend before last", "2024-05-04 2024-05-06"),
            ("the week before last Friday", "2024-05-03 2024-05-10"),
            ("this past week", "2024-05-08 2024-05-16"),
            ("in the last week", "2024-05-08 2024-05-16"),
            ("over the past two weeks", "2024-05-01 2024-05-16"),
            ("in the past few weeks", "2024-04-10 2024-05-16"),
            ("a week ago", "2024-05-05 2024-05-12"),
            ("two weeks ago", "2024-04-28 2024-05-05"),
            ("last weekend", "2024-05-11 2024-05-13"),
            ("this weekend", "2024-05-18 2024-05-20"),
            ("next weekend", "2024-05-25 2024-05-27"),
            ("over the weekend", "2024-05-11 2024-05-13"),
            ("this past weekend", "2024-05-11 2024-05-13"),
            ("the week of 1 May", "2024-04-29 2024-05-06"),
            ("on Monday", "2024-05-13"),
            ("on Wednesday", "2024-05-08"),
            ("last Friday", "2024-05-10"),
            ("this past Saturday", "2024-05-11"),
            ("this Friday", "2024-05-17"),
            ("next Friday", "2024-05-17"),
            ("on Tuesday of last week", "2024-05-07"),
            ("Tuesday last week", "2024-05-07"),
            ("Monday morning", "2024-05-13T05:00 2024-05-13T12:00"),
            ("on Friday night", "2024-05-10T18:00 2024-05-11T06:00"),
            ("Last Tues. we met", "2024-05-14"),
            ("I will see her on Friday", "2024-05-17"),
            ("On Friday I'll see her", "2024-05-17"),
            ("I saw her on Friday and I will call", "2024-05-10"),
            ("since Monday", "2024-05-13 .."),
            ("on Mondays", ""),
            ("on Monday mornings", ""),
            ("every Monday", ""),
            ("on a Monday", ""),
            ("the Monday meeting", ""),
            ("my Monday morning class", ""),
            ("from Monday to Friday", ""),
            ("Monday through Friday last week", "2024-05-06 2024-05-13"),
            ("the last week of the trip", ""),
            ("the last two days of the trip", ""),
            ("a two-week trip", ""),
            ("for two weeks", ""),
            ("two days a week", ""),
        ],
        mentioned,
    );
    check(
        "2024-05-18T10:00:00Z", // a Saturday
        &[
            ("last weekend", "2024-05-11 2024-05-13"),
            ("over the weekend", "2024-05-18 2024-05-20"),
            ("last Friday", "2024-05-17"),
        ],
        mentioned,
    );
}

#[test]
fn months_and_years_are_counted_within_their_ends() {
    check(
        "2024-03-31T10:00:00Z",
        &[
            ("this month", "2024-03-01 2024-04-01"),
            ("last month", "2024-02-01 2024-03-01"),
            ("next month", "2024-04-01 2024-05-01"),
            ("a month ago", "2024-02-14 2024-03-16"),
            ("two months ago", "2024-01-16 2024-02-16"),
            ("in the past month", "2024-02-29 2024-04-01"),
            ("in the last 3 months", "2023-12-31 2024-04-01"),
            ("this quarter", "2024-01-01 2024-04-01"),
            ("last quarter", "2023-10-01 2024-01-01"),
            ("this year", "2024-01-01 2025-01-01"),
            ("last year", "2023-01-01 2024-01-01"),
            ("a year ago", "2022-09-30 2023-10-01"),
            ("ten years ago", "2013-09-30 2014-10-01"),
            ("half a year ago", "2023-09-15 2023-10-16"),
            ("a year and a half ago", "2022-09-15 2022-10-16"),
            ("two and a half years ago", "2021-09-15 2021-10-16"),
            ("over two years ago", ".. 2022-10-01"),
            ("the end of the month", "2024-03-21 2024-04-01"),
            ("at the beginning of the year", "2024-01-01 2024-05-02"),
            ("since the start of the year", "2024-01-01 .."),
            ("last summer", "2023-06-01 2023-09-01"),
            ("last winter", "2023-12-01 2024-03-01"),
            ("next fall", "2024-09-01 2024-12-01"),
            ("last Christmas", "2023-12-25"),
            ("last March", "2023-03-01 2023-04-01"),
            ("this May", "2024-05-01 2024-06-01"),
            ("in May last year", "2023-05-01 2023-06-01"),
            ("in the fall of last year", "2023-09-01 2023-12-01"),
            ("30 years old", ""),
            ("a five-year plan", ""),
            ("last season", ""),
            ("last time", ""),
            ("at the last minute", ""),
            ("in the past decade", ""),
            ("1.5 years ago", ""),
        ],
        mentioned,
    );
    check(
        "2024-02-29T10:00:00Z",
        &[
            ("a year ago", "2022-08-28 2023-08-29"),
            ("last year", "2023-01-01 2024-01-01"),
            ("on 29 February", "2024-02-29"),
            ("in the past year", "2023-02-28 2024-03-01"),
        ],
        mentioned,
    );
    check(
        "2024-01-01T00:00:00Z",
        &[
            ("yesterday", "2023-12-31"),
            ("last week", "2023-12-25 2024-01-01"),
            ("last month", "2023-12-01 2024-01-01"),
            ("last quarter", "2023-10-01 2024-01-01"),
            ("last weekend", "2023-12-30 2024-01-01"),
            ("this winter", "2023-12-01 2024-03-01"),
            ("in December", "2023-12-01 2024-01-01"),
        ],
        mentioned,
    );
}

#[test]
fn days_are_those_of_the_speaker() {
    check(
        "2024-05-15T23:30:00-05:00", // 16 May in UTC
        &[
            ("today", "2024-05-15"),
            ("last night", "2024-05-14T18:00 2024-05-15T06:00"),
            ("on 2024-05-16T03:10Z", "2024-05-15T22:10 2024-05-15T22:11"),
            ("an hour ago", "2024-05-15T22:00 2024-05-15T23:00"),
        ],
        mentioned,
    );
    check(
        "2024-06-01T00:15:00+13:45",
        &[("yesterday", "2024-05-31"), ("last month", "2024-05-01 2024-06-01")],
        mentioned,
    );
}

#[test]
fn distances_are_counted_from_dates_as_from_now() {
    check(
        "2024-05-15T10:00:00Z",
        &[
            ("two weeks before Christmas", "2023-12-08 2023-12-15"),
            ("three days before March 3rd", "2024-02-29"),
            ("ten days after 25 December 2023", "2024-01-04"),
            ("a week after Easter", "2024-04-04 2024-04-11"),
            ("the day before March 1", "2024-02-29"),
            ("the day after New Year's Eve", "2024-01-01"),
            ("the week before 16 November 2023", "2023-11-09 2023-11-16"),
            ("the month before March", "2024-02-01 2024-03-01"),
            ("the Friday after Thanksgiving", "2023-11-24"),
            ("the Sunday before April 10, 2023", "2023-04-09"),
            ("last weekend before April 10, 2023", "2023-04-08 2023-04-10"),
            ("the weekend after 3 May", "2024-05-04 2024-05-06"),
            ("two weeks before the trip", ""),
            ("the day after the trip", ""),
        ],
        mentioned,
    );
}
