"""Writes a corpus of any size that holds nothing private, as JSON Lines that `clew ingest` reads.

    python3 benches/make_corpus.py 100000 > bench.jsonl
    clew corpus create bench --no-structure --max-tokens 128
    clew ingest --corpus bench bench.jsonl

The argument is the number of chunks. A document is 20 paragraphs of about 100 tokens, and `--max-tokens 128` makes
each of them a chunk. The same number and `--seed` give the same bytes.

Words are put together from English roots, prefixes and suffixes, so an encoder's tokenizer knows their parts. How
often a word comes follows Zipf's law. A document has one topic of 500, and each of its paragraphs has a few subjects
of that topic, so that paragraphs can be told apart. The attribute `share` is for measuring filters: `share=1` selects
about 1 % of the documents, `share=10` about 10 %, `share=50` about 50 %, and the others have `share=39`.

Clew embeds all of it itself, because it takes no vectors from outside. `clew ingest --estimate` tells how much that
is.
"""

import argparse
import itertools
import json
import random
import sys

PARAGRAPHS = 20
TOPICS = 500
WORDS_OF_A_TOPIC = 180
SUBJECTS_OF_A_PARAGRAPH = 6
WORDS_OF_A_PARAGRAPH = 60
DAYS = 3650
SHARES = {"1": 1, "10": 10, "50": 50, "39": 39}

# The commonest come first.
FUNCTION_WORDS = """
the of and to in a is that for it was on are as with his they at be this from have or by one had not but what all were
when we there can an your which their said if do will each about how up out them then she many some so these would
other into has more her two like him see time could no make than first been its who now people my made over did down
only way find use may water long little very after words called just where most know
""".split()
PREFIXES = ["re", "un", "over", "under", "inter", "out", "pre", "sub", "super", "mis", "counter"]
ROOTS = """
act age air arm art band bank bar base bath bell bird block board boat body bond bone book border bottle branch bread
bridge build burn call camp card care carry cart cast castle chain chair chalk charge chart cheese child church circle
city clay clean clear climb clock cloth cloud coal coast coat coin cold color cook copper corn cotton count court cover
craft crop cross crowd crown cup cut dance dark day deal deep desk dial dig dish doctor door draw dream dress drink
drive drop dust earth edge engine face fact farm farmer fence field fire fish flag floor flow flower fold food foot
force forest form fort frame fruit game garden gate gift glass gold grain grass ground group grow guard guide hand
harbor hat head heart heat hill hold home honey horse host house hunt ice ink iron island jar join judge key king
kitchen knife lamp land law lead leaf leather letter level light line lock lord machine map mark market master match
meal measure metal milk mill mine mirror money moon mountain music nail name nest night oil orchard order paint paper
park part pass path pay pen piece pilot pipe place plain plan plant plate play pocket point pool port post pot power
press price print prison queen rail rain ranch reach record ring river road rock roof room root rope round rule sail
salt sand saw school sea seat seed sell send shade shape sheep shell ship shoe shop show silk silver sing site skill
sky sleep smoke snow soil soldier song sound spring stage stamp star state station steam steel step stock stone store
storm story stream street student sugar summer sun table tail talk teach tent test thread tide timber tool tower town
track trade train travel tree turn valley value vessel village voice wall watch wave wax weather wheel wild wind window
wine winter wire wood wool work world yard
""".split()
SUFFIXES = ["s", "ed", "er", "ing", "less", "ful", "ship", "ward", "like", "man", "hood"]


class Zipf:
    """Draws from a list in which the word at place `n` comes as often as `1 / (n + shift)`."""

    def __init__(self, words, shift):
        self.words = words
        weights = (1 / (place + shift) for place in range(1, len(words) + 1))
        self.cumulative = list(itertools.accumulate(weights))

    def draw(self, chance, count):
        return chance.choices(self.words, cum_weights=self.cumulative, k=count)


class Writer:
    """Writes documents, each the same whichever were written before it."""

    def __init__(self, seed):
        self.seed = seed
        chance = random.Random(seed)
        suffixed = [root + suffix for root in ROOTS for suffix in SUFFIXES]
        prefixed = [prefix + word for prefix in PREFIXES for word in ROOTS + suffixed]
        # Short words are common and long ones rare, as in any language.
        kinds = [ROOTS, suffixed, prefixed]
        everything = [word for kind in kinds for word in chance.sample(kind, len(kind))]
        self.function_words = Zipf(FUNCTION_WORDS, shift=1)
        self.general = Zipf(everything, shift=20)
        self.topics = [
            Zipf([word for kind in kinds for word in chance.sample(kind, WORDS_OF_A_TOPIC // 3)], shift=5)
            for _ in range(TOPICS)
        ]

    def paragraph(self, chance, topic):
        subjects = topic.draw(chance, SUBJECTS_OF_A_PARAGRAPH)
        sentences = []
        left = chance.randint(WORDS_OF_A_PARAGRAPH - 8, WORDS_OF_A_PARAGRAPH + 8)
        while left > 0:
            pairs = chance.randint(4, 8)
            left -= 2 * pairs
            # Every second word is a function word, and of the others most are of the topic.
            content = chance.choices(subjects, k=pairs // 3) + topic.draw(chance, pairs // 3)
            content += self.general.draw(chance, pairs - len(content))
            chance.shuffle(content)
            between = self.function_words.draw(chance, pairs)
            sentence = " ".join(f"{small} {large}" for small, large in zip(between, content))
            sentences.append(sentence[0].upper() + sentence[1:] + ".")
        return " ".join(sentences)

    def document(self, number, paragraphs):
        chance = random.Random(f"{self.seed}/{number}")
        topic = chance.choice(self.topics)
        share = chance.choices(list(SHARES), weights=list(SHARES.values()))[0]
        day = chance.randrange(DAYS)
        text = "\n\n".join(self.paragraph(chance, topic) for _ in range(paragraphs))
        return {
            "id": f"document-{number:06}",
            "title": " ".join(dict.fromkeys(topic.draw(chance, 3))).capitalize(),
            "text": text,
            "event_time": f"{2015 + day // 365}-{1 + day % 12:02}-{1 + day % 28:02}",
            "share": share,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("chunks", type=int, help="number of chunks")
    parser.add_argument("--seed", type=int, default=7, help="another seed gives another corpus (default: 7)")
    arguments = parser.parse_args()
    writer = Writer(arguments.seed)
    for number, first in enumerate(range(0, arguments.chunks, PARAGRAPHS)):
        document = writer.document(number, min(PARAGRAPHS, arguments.chunks - first))
        sys.stdout.write(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
