"""Makes windows of tokens to train on out of reading comprehension data.

A data folder has `train/*.jsonl.gz`, `rerank/*.jsonl.gz` and `dev/*.jsonl.gz`. Each line is an
object with `title`, `context`, `question` and `answers`, a list of `{text, start}` in characters;
an empty list means that the context does not answer. In `rerank/`, `answers` is null, and
`supporting` tells whether the context is about the question.

Everything random comes from one seed, so the same data and seed make the same windows.
"""

import gzip
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tokenizers import Tokenizer

# The frame of a window. The Rust side (`crates/model/src/reader`) reads with the same numbers,
# which it takes from the adapter.
WINDOW = 384
QUESTION = 64
HEADING = 32
STRIDE = 128
LONGEST_ANSWER = 30

# Windows to train on are shorter, since the time of a step grows with the tokens.
TRAINED_WINDOW = 288


@dataclass(frozen=True)
class Source:
    """A file of training data: how much of it is used, and what is known of its licence."""

    share: float
    licence: str
    # Contexts are single sentences, which are joined with others.
    is_sentence: bool = False


SOURCES = {
    "squad2_train_part": Source(1.0, "CC BY-SA 4.0"),
    "squadshifts_newwiki": Source(1.0, "CC BY 4.0"),
    "squadshifts_amazon": Source(0.45, "CC BY 4.0"),
    "squadshifts_reddit": Source(0.45, "CC BY 4.0"),
    "qed_nq": Source(0.6, "CC BY-SA 3.0"),
    "nq_open_oracle": Source(1.0, "CC BY-SA 3.0"),
    "qamr": Source(0.22, "MIT", is_sentence=True),
    "qasrl_gs": Source(0.25, "MIT", is_sentence=True),
    "fairytaleqa": Source(0.6, "Apache-2.0"),
    "doc2dial_val": Source(0.5, "CC BY 3.0"),
    "molweni_test": Source(0.9, "Apache-2.0"),
    "quoref_dev": Source(1.0, "CC BY 4.0"),
    "timeqa_human": Source(1.0, "BSD-3-Clause"),
    "onestopqa": Source(0.5, "CC BY-SA 4.0"),
    "covid_qa": Source(0.5, "Apache-2.0"),
    "synthetic_unanswerable": Source(0.3, "as the others"),
    "selqa_sentences": Source(0.2, "Apache-2.0"),
    "qmsum_turns": Source(0.08, "MIT"),
    "squad_nqg_sentences": Source(0.06, "CC BY-SA 4.0"),
}

# Parts of the data that a training can go without, to measure what they bring.
PARTS = {
    "squad": ("squad2_train_part", "squadshifts_newwiki", "squadshifts_amazon", "squadshifts_reddit"),
    "natural-questions": ("qed_nq", "nq_open_oracle"),
    "sentences": ("qamr", "qasrl_gs"),
    "dialogues": ("doc2dial_val", "molweni_test"),
    "other-passages": ("synthetic_unanswerable",),
    "relevance": ("selqa_sentences", "qmsum_turns", "squad_nqg_sentences"),
}
# The changes by rules, as a part.
RULES = "rules"

# Chances of the changes by rules that leave an answer in the passage.
HEADING_SHOWN = 0.5
SPOKEN_HEADING = 0.06
GROUPED_NUMBER = 0.5
# Maximum number of sentences that a single one is put among.
NEIGHBOURS = 3

# Chances of the changes that leave none, for examples with an answer.
ANOTHER_PASSAGE = 0.05
ANOTHER_NAME = 0.08
ANOTHER_MATTER = 0.03
ANOTHER_WORD = 0.13
ANSWER_REMOVED = 0.04

NAME = re.compile(r"\b[A-Z][\w'’-]+(?: (?:of |de |van )?[A-Z][\w'’-]+)*")
GROUPED = re.compile(r"\b\d{1,3}(?:,\d{3})+\b")
NUMBER = re.compile(r"\d+")
WORD = re.compile(r"[^\W\d_]{4,}|\d+")
# A word that one of these stands before is most likely a noun or belongs to one.
NOUN = re.compile(r"\b(?:the|a|an|of|his|her|their|its|what|which|many|my|your|for|in) ([a-z]{4,})\b", re.I)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
QUESTION_WORDS = frozenset(
    "what when where which whose whom does with from that this these those there their have been "
    "were into about many much long often kind type name they them then than also would could "
    "should will your some other more most such only after before during according".split()
)
OPPOSITES = {
    one: other
    for pair in (
        "first last", "largest smallest", "oldest youngest", "highest lowest", "before after",
        "most least", "best worst", "north south", "east west", "northern southern",
        "eastern western", "male female", "increase decrease", "increased decreased", "begin end",
        "began ended", "opened closed", "won lost", "early late", "earliest latest", "more fewer",
        "longest shortest", "mother father", "brother sister", "husband wife", "upper lower",
        "majority minority", "positive negative", "buys sells", "bought sold", "arrive leave",
        "arrived left", "same different", "above below", "never always",
    )
    for one, other in (pair.split(), pair.split()[::-1])
}
MATTERS = (
    "phone number", "email address", "birthday", "salary", "favourite colour", "middle name",
    "home address", "shoe size", "star sign", "blood type", "first car", "password", "hobby",
    "dog's name", "date of the wedding", "dentist", "nationality", "room number", "deadline",
)


@dataclass
class Window:
    """Tokens to read at once, and what a reader should make of them."""

    ids: list
    # Range of the passage's tokens.
    begin: int
    end: int
    # Character ranges of the passage's tokens in the passage.
    offsets: list
    # Places of answers, in tokens, both ends included. Empty: no answer is here.
    answers: list = field(default_factory=list)
    # Whether the passage answers, and whether it is about the question; None if nobody knows.
    answered: float | None = None
    relevant: float | None = None


class Encoder:
    """Frames questions and passages as the Rust side does."""

    def __init__(self, base):
        self.tokenizer = Tokenizer.from_file(str(Path(base) / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.first = self.tokenizer.token_to_id("[CLS]")
        self.separator = self.tokenizer.token_to_id("[SEP]")

    def tokens(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False)

    def windows(self, question, heading, passage, most=WINDOW):
        """Returns the windows over a passage, in order."""
        head = [self.first, *self.tokens(question).ids[:QUESTION], self.separator]
        if heading and (ids := self.tokens(heading).ids[:HEADING]):
            head += [*ids, self.separator]
        encoded = self.tokens(passage)
        room = most - len(head) - 1
        windows, start = [], 0
        while True:
            ids, offsets = encoded.ids[start:start + room], encoded.offsets[start:start + room]
            windows.append(Window(
                ids=[*head, *ids, self.separator],
                begin=len(head),
                end=len(head) + len(ids),
                offsets=offsets,
            ))
            if start + room >= len(encoded.ids):
                return windows
            start += max(room - STRIDE, 1)


def read(path):
    """Returns the objects of a file, in order."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def clean_title(title):
    """Returns a title as a person would write it; empty if it names nothing."""
    title = title.split("#")[0].replace("_", " ").strip()
    return "" if title.lower() in ("wikipedia", "wikinews") else title


def form(word):
    """Returns the ending of a word that tells its form, if it has one."""
    return next((ending for ending in ("ing", "ed", "ly", "s") if word.endswith(ending)), "")


def place(window, start, end):
    """Returns the tokens that cover a character range of the passage, or None."""
    first = next((i for i, (_, to) in enumerate(window.offsets) if to > start), None)
    last = next((i for i in range(len(window.offsets) - 1, -1, -1) if window.offsets[i][0] < end), None)
    if first is None or last is None or last < first or last - first >= LONGEST_ANSWER:
        return None
    if window.offsets[first][0] > start or window.offsets[last][1] < end:
        return None
    return window.begin + first, window.begin + last


class Maker:
    """Makes one window out of each example, with changes by rules."""

    def __init__(self, encoder, random, with_rules=True):
        self.encoder = encoder
        self.random = random
        self.with_rules = with_rules
        # Names in questions, to ask about somebody else.
        self.names = []
        # Words of questions, by file and title.
        self.words = {}

    def example(self, raw, source, others):
        """Returns the window of an example; `others` are examples of the same file."""
        chance = self.random.random
        question, passage = raw["question"], raw["context"]
        answers = raw["answers"]
        heading = clean_title(raw.get("title") or "") if chance() < HEADING_SHOWN else ""
        if chance() < SPOKEN_HEADING:
            heading = self.spoken_heading()
        if answers is None:
            relevant = float(raw["supporting"])
            # What is not about the question does not answer it.
            answered = None if relevant else 0.0
            return self.cut(question, heading, passage, [], answered, relevant)
        spans = [(a["start"], a["start"] + len(a["text"])) for a in answers]
        answered = float(bool(spans))
        relevant = 1.0 if spans else (0.0 if source == "synthetic_unanswerable" else None)
        if SOURCES[source].is_sentence:
            passage, spans = self.among_others(passage, spans, others)
        names = [m.group() for m in NAME.finditer(question) if m.start() > 0]
        if spans and self.with_rules:
            texts = [passage[start:end].lower() for start, end in spans]
            changed = self.without_answer(question, passage, names, texts, raw, others)
            if changed:
                (question, passage), spans, answered, relevant = changed, [], 0.0, None
                if passage != raw["context"]:
                    heading = ""
        self.names += names[:1]
        if self.with_rules and GROUPED.search(question) and chance() < GROUPED_NUMBER:
            question = GROUPED.sub(lambda number: number.group().replace(",", ""), question)
        return self.cut(question, heading, passage, spans, answered, relevant)

    def among_others(self, passage, spans, others):
        """Puts a sentence among up to `NEIGHBOURS` others."""
        number = self.random.randrange(NEIGHBOURS + 1)
        sentences = [self.random.choice(others)["context"] for _ in range(number)]
        before = self.random.randrange(number + 1)
        front = "".join(sentence + " " for sentence in sentences[:before])
        back = "".join(" " + sentence for sentence in sentences[before:])
        moved = [(start + len(front), end + len(front)) for start, end in spans]
        return front + passage + back, moved

    def without_answer(self, question, passage, names, texts, raw, others):
        """Returns a question and a passage that has no answer to it, made out of those that have
        one; None if they stay as they are, by chance or because no change is possible."""
        draw = self.random.random()
        if (draw := draw - ANOTHER_PASSAGE) < 0:
            other = self.random.choice(others)["context"]
            return None if any(text in other.lower() for text in texts) else (question, other)
        if (draw := draw - ANOTHER_NAME) < 0:
            asked = self.another_name(question, passage, names)
        elif (draw := draw - ANOTHER_MATTER) < 0:
            asked = self.another_matter(passage)
        elif (draw := draw - ANOTHER_WORD) < 0:
            asked = self.another_word(question, passage, raw, others)
        elif draw < ANSWER_REMOVED:
            kept = [part for part in SENTENCE_END.split(passage) if not any(text in part.lower() for text in texts)]
            left = " ".join(kept)
            return (question, left) if len(left) > len(passage) / 2 else None
        else:
            return None
        return asked and (asked, passage)

    def another_word(self, question, passage, raw, others):
        """Puts another word in place of one that the passage has, so that the question asks for
        something else, in the way of SQuAD 2.0's questions without an answer. None if the question
        has no such word."""
        low = passage.lower()
        nouns = {m.start(1) for m in NOUN.finditer(question)}
        known = [m for m in WORD.finditer(question)
                 if m.group().lower() not in QUESTION_WORDS and m.group().lower() in low
                 and (m.start() in nouns or not m.group().islower() or m.group() in OPPOSITES)]
        if not known:
            return None
        at = self.random.choice(known)
        word = at.group()
        if NUMBER.fullmatch(word):
            other = str(max(int(word) + self.random.choice((-13, -7, -3, -2, 2, 3, 6, 11)), 1))
        elif word.lower() in OPPOSITES:
            other = OPPOSITES[word.lower()]
        else:
            other = self.word_like(word, raw, others)
        if other is None or other.lower() in low:
            return None
        return question[:at.start()] + other + question[at.end():]

    def word_like(self, word, raw, others):
        """Returns a word of the same form from a question of the same article, or of the same file;
        None if ten draws bring none."""
        words = self.asked_of(raw, others)
        for _ in range(10):
            other = self.random.choice(words)
            if form(other) == form(word) and other[0].isupper() == word[0].isupper() and other[:4].lower() != word[:4].lower():
                return other
        return None

    def asked_of(self, raw, others):
        """Returns the nouns of questions about the article of an example."""
        if id(others) not in self.words:
            by_title = {}
            for other in others:
                words = (m.group(1) for m in NOUN.finditer(other["question"]))
                told = [word for word in words if word.lower() not in QUESTION_WORDS]
                by_title.setdefault(other.get("title"), []).extend(told)
            everywhere = [word for words in by_title.values() for word in words]
            self.words[id(others)] = by_title, everywhere
        by_title, everywhere = self.words[id(others)]
        words = by_title[raw.get("title")]
        return words if len(set(words)) > 20 else everywhere

    def another_name(self, question, passage, names):
        """Asks about somebody of whom the passage does not speak; None if nobody is asked about."""
        known = [name for name in names if name in passage]
        if not known or not self.names:
            return None
        other = self.random.choice(self.names)
        if any(word.lower() in passage.lower() for word in other.split()):
            return None
        return question.replace(self.random.choice(known), other)

    def another_matter(self, passage):
        """Asks something personal of somebody in the passage that it does not tell."""
        names = [m.group() for m in NAME.finditer(passage) if m.start() > 0]
        matter = self.random.choice(MATTERS)
        if not names or any(word in passage.lower() for word in matter.split()):
            return None
        name = self.random.choice(names)
        return self.random.choice((
            f"What is {name}'s {matter}?", f"What is the {matter} of {name}?",
            f"Do you know {name}'s {matter}?", f"{name}'s {matter}?",
        ))

    def spoken_heading(self):
        """Returns the heading of a turn of a conversation."""
        day = (self.random.randrange(2015, 2027), self.random.randrange(1, 13), self.random.randrange(1, 29))
        who = self.random.choice(("user", "assistant", *self.names[-20:]))
        return "{}, {:04}-{:02}-{:02}".format(who, *day)

    def cut(self, question, heading, passage, spans, answered, relevant):
        """Returns a window that holds an answer if there is one, or any window."""
        windows = self.encoder.windows(question, heading, passage, TRAINED_WINDOW)
        for window in windows:
            placed = (place(window, start, end) for start, end in spans)
            window.answers = sorted({at for at in placed if at})
        with_answer = [window for window in windows if window.answers]
        if spans and not with_answer:
            return None
        window = self.random.choice(with_answer or windows)
        window.answered, window.relevant = answered, relevant
        return window


def training_windows(data, base, seed, without=""):
    """Returns the windows to train on, in random order, and the number of windows by file. `without`
    is one of the `PARTS`, or `RULES`."""
    random = Random(seed)
    maker = Maker(Encoder(base), random, with_rules=without != RULES)
    chosen = []
    for name, source in SOURCES.items():
        if name in PARTS.get(without, ()):
            continue
        folder = "rerank" if name.endswith(("_sentences", "_turns")) else "train"
        raw = read(Path(data) / folder / f"{name}.jsonl.gz")
        sample = random.sample(raw, round(source.share * len(raw)))
        chosen += [(name, example, raw) for example in sample]
    random.shuffle(chosen)
    windows, counts = [], dict.fromkeys(SOURCES, 0)
    for name, example, others in chosen:
        if window := maker.example(example, name, others):
            windows.append(window)
            counts[name] += 1
    return windows, counts


def batches(windows, tokens, seed):
    """Returns batches of windows of similar lengths with at most about `tokens` tokens, padding
    included, in random order."""
    random = Random(seed)
    made = []
    # Sorted by length within large pools only, so that batches are different in every run of a
    # length, and what is padded stays little.
    for first in range(0, len(windows), 4096):
        pool = sorted(windows[first:first + 4096], key=lambda window: len(window.ids))
        batch = []
        for window in pool:
            if batch and (len(batch) + 1) * len(window.ids) > tokens:
                made.append(batch)
                batch = []
            batch.append(window)
        made.append(batch)
    random.shuffle(made)
    return made
