use super::*;

#[test]
fn debug() {
    for (a, b) in [
        (
            "I've added 17 new ones since I started collecting again, and I'd like to keep track of them.",
            "Speaking of which, I just realized I've added 25 new postcards to my collection since I started collecting again.",
        ),
        (
            "I've been working on an abstract ocean sculpture at home, and I've spent around 5-6 hours on it so far.",
            "By the way, I've been spending a lot of time on my abstract ocean sculpture lately - I've already put in 10-12 hours, and it's still a work in progress.",
        ),
        (
            "I'm still getting used to living in Tokyo, but I've been enjoying the independence of my new studio apartment in Harajuku - it's been a month now, and the commute to work is really convenient.",
            "By the way, I've been living in Harajuku for 3 months now, and I'm still discovering new hidden gems in the neighborhood.",
        ),
    ] {
        println!("{:#?}\n{:#?}", Attributes::of(a, ""), Attributes::of(b, ""));
    }
}
