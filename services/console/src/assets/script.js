// The console's only script: answers as they come, copying, and files into the form. Every page
// works without it.

/** Puts a button that copies it below each text to copy. */
function offerCopies(root) {
  if (!navigator.clipboard) return;
  for (const text of root.querySelectorAll("[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy ${text.dataset.copy}`);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(text.textContent);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select it and copy it by hand";
      }
    });
    text.after(button);
  }
}

/** Yields the values of a response of lines of JSON. */
async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) yield JSON.parse(part);
  }
}

function element(name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

/** Shows the answer to a question in `place` as it comes. */
async function tell(place, address) {
  const said = element("div", "", "said");
  said.dir = "auto";
  const steps = element("ol", "", "steps");
  place.replaceChildren(element("p", "Under way…", "quiet"), said, steps);
  const fail = (problem) => place.replaceChildren(element("p", problem, "problem"));
  try {
    const response = await fetch(address, { redirect: "error" });
    if (!response.ok) {
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      return fail(page.querySelector(".problem")?.textContent ?? `It failed: status ${response.status}.`);
    }
    for await (const line of lines(response)) {
      if (line.step !== undefined) steps.append(element("li", line.step));
      if (line.text !== undefined) said.append(line.text);
      if (line.problem !== undefined) return fail(line.problem);
      if (line.result !== undefined) {
        // Made by the server as the page without the script is: all stored text in it is escaped,
        // and the page's policy lets nothing in it run.
        const result = new DOMParser().parseFromString(line.result, "text/html");
        place.replaceChildren(...result.body.childNodes);
        offerCopies(place);
        return;
      }
    }
    fail("The answer was cut short; ask again.");
  } catch {
    fail("The connection broke, or the login has ended. Load the page anew, and ask again.");
  }
}

const ask = document.querySelector("#ask");
ask?.addEventListener("submit", (event) => {
  event.preventDefault();
  const fields = new FormData(ask);
  const query = new URLSearchParams(fields);
  history.replaceState(null, "", `${ask.getAttribute("action")}?${query}`);
  const answers = document.querySelector("#answers");
  answers.replaceChildren();
  for (const strategy of [fields.get("strategy"), fields.get("beside")].filter(Boolean)) {
    const place = document.createElement("div");
    answers.append(place);
    const asked = new URLSearchParams({ q: fields.get("q"), strategy });
    tell(place, `${ask.dataset.stream}?${asked}`);
  }
});

for (const choice of document.querySelectorAll("[data-fill]")) {
  choice.hidden = false;
  const input = choice.querySelector("input");
  input.addEventListener("change", async () => {
    const file = input.files[0];
    if (!file) return;
    document.getElementById(choice.dataset.fill).value = await file.text();
    const name = document.getElementById(choice.dataset.name);
    if (!name.value) name.value = file.name;
  });
}

offerCopies(document);
