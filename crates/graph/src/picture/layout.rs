//! Layout of a figure: forces as in Fruchterman and Reingold, "Graph Drawing by Force-directed
//! Placement" (1991), after which boxes that overlap are pushed apart.

/// Number of rounds in which forces act.
const ROUNDS: u32 = 300;
/// Maximum number of rounds in which boxes are pushed apart.
const PUSHES: u32 = 600;
/// Length that a line tends to, if there are about as many lines as things.
const LENGTH: f64 = 150.0;
/// Maximum factor of that length if there are many lines, which together pull harder.
const MOST_STRETCH: f64 = 2.2;
/// Strength of the pull to the middle, so that unconnected things stay near.
const GRAVITY: f64 = 1.2;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub x: f64,
    pub y: f64,
}

impl Point {
    /// Returns the point `length` further along a direction.
    pub fn plus(self, along: Self, length: f64) -> Self {
        Self { x: self.x + along.x * length, y: self.y + along.y * length }
    }

    pub fn distance(self, other: Self) -> f64 {
        let (x, y) = (other.x - self.x, other.y - self.y);
        (x * x + y * y).sqrt()
    }

    /// Returns the direction to another point, of length 1; any direction if the points are the
    /// same.
    pub fn towards(self, other: Self) -> Self {
        let distance = self.distance(other);
        if distance < 1e-9 {
            return Self { x: 1.0, y: 0.0 };
        }
        Self { x: (other.x - self.x) / distance, y: (other.y - self.y) / distance }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Box2 {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Box2 {
    /// Returns this box around a point.
    pub fn at(self, point: Point) -> Self {
        let Point { x, y } = point;
        Self {
            left: self.left + x,
            top: self.top + y,
            right: self.right + x,
            bottom: self.bottom + y,
        }
    }

    /// Returns the smallest box around two.
    pub fn around(self, other: Self) -> Self {
        Self {
            left: self.left.min(other.left),
            top: self.top.min(other.top),
            right: self.right.max(other.right),
            bottom: self.bottom.max(other.bottom),
        }
    }

    pub fn meets(self, other: Self) -> bool {
        let (x, y) = self.overlap(other);
        x > 0.0 && y > 0.0
    }

    fn overlap(self, other: Self) -> (f64, f64) {
        let x = self.right.min(other.right) - self.left.max(other.left);
        let y = self.bottom.min(other.bottom) - self.top.max(other.top);
        (x, y)
    }

    fn middle(self) -> Point {
        Point { x: f64::midpoint(self.left, self.right), y: f64::midpoint(self.top, self.bottom) }
    }
}

/// Returns places for things with `boxes` around them. Things that lines connect are near, and
/// overlapping boxes are pushed apart for a limited number of rounds. The cost of each round is the
/// square of the number of things.
pub(super) fn layout(boxes: &[Box2], lines: &[(usize, usize)]) -> Vec<Point> {
    let count = |items: usize| f64::from(u32::try_from(items).unwrap_or(u32::MAX));
    let density = (count(lines.len()) / count(boxes.len()).max(1.0)).sqrt();
    let length = LENGTH * density.clamp(1.0, MOST_STRETCH);
    let mut places = spiral(boxes.len());
    for round in 0..ROUNDS {
        let forces = forces(&places, lines, length);
        // Steps get smaller, so that the layout comes to rest.
        let most = length * 0.5 * f64::from(ROUNDS - round) / f64::from(ROUNDS);
        for (place, force) in places.iter_mut().zip(forces) {
            let origin = Point::default();
            *place = place.plus(origin.towards(force), origin.distance(force).min(most));
        }
    }
    for _ in 0..PUSHES {
        if !push_apart(boxes, &mut places) {
            break;
        }
    }
    places
}

/// Returns starting points: the first in the middle, all about equally far apart.
fn spiral(count: usize) -> Vec<Point> {
    let golden = std::f64::consts::PI * (3.0 - 5.0_f64.sqrt());
    let at = |number: u32| {
        let (radius, angle) = (LENGTH * 0.6 * f64::from(number).sqrt(), golden * f64::from(number));
        Point { x: radius * angle.cos(), y: radius * angle.sin() }
    };
    (0..).take(count).map(at).collect()
}

fn forces(places: &[Point], lines: &[(usize, usize)], length: f64) -> Vec<Point> {
    let mut forces = vec![Point::default(); places.len()];
    for (a, place) in places.iter().enumerate() {
        forces[a] = forces[a].plus(*place, -GRAVITY);
        for (b, other) in places.iter().enumerate().skip(a + 1) {
            let (away, distance) = (other.towards(*place), place.distance(*other).max(1.0));
            let strength = length * length / distance;
            forces[a] = forces[a].plus(away, strength);
            forces[b] = forces[b].plus(away, -strength);
        }
    }
    for &(a, b) in lines {
        let (along, distance) = (places[a].towards(places[b]), places[a].distance(places[b]));
        let strength = distance * distance / length;
        forces[a] = forces[a].plus(along, strength);
        forces[b] = forces[b].plus(along, -strength);
    }
    forces
}

/// Moves each two boxes that overlap apart, along the shorter way. Returns whether any did.
fn push_apart(boxes: &[Box2], places: &mut [Point]) -> bool {
    let mut any = false;
    for a in 0..boxes.len() {
        for b in a + 1..boxes.len() {
            let (one, other) = (boxes[a].at(places[a]), boxes[b].at(places[b]));
            let (x, y) = one.overlap(other);
            if x <= 0.0 || y <= 0.0 {
                continue;
            }
            any = true;
            let is_left = one.middle().x <= other.middle().x;
            let is_above = one.middle().y <= other.middle().y;
            let along = match (x < y, is_left, is_above) {
                (true, true, _) => Point { x: -1.0, y: 0.0 },
                (true, false, _) => Point { x: 1.0, y: 0.0 },
                (false, _, true) => Point { x: 0.0, y: -1.0 },
                (false, _, false) => Point { x: 0.0, y: 1.0 },
            };
            let by = x.min(y) / 2.0 + 1.0;
            places[a] = places[a].plus(along, by);
            places[b] = places[b].plus(along, -by);
        }
    }
    any
}
