// The console's only script: answers as they come, copying, files into the form, and pictures that
// are moved and enlarged. Every page works without it.

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

/** Lets people enlarge each picture, by buttons and by the wheel with Ctrl, and drag it. It scrolls without that. */
function offerMoving(root) {
  for (const picture of root.querySelectorAll("[data-picture]")) {
    const view = picture.querySelector(".view");
    const drawn = view.querySelector("svg");
    const [width, height] = ["width", "height"].map((side) => Number(drawn.getAttribute(side)));
    let scale = 1;
    /** Shows the picture at a scale. The place at (x, y) of the view stays where it is. */
    const show = (wanted, x = view.clientWidth / 2, y = view.clientHeight / 2) => {
      const from = scale;
      scale = Math.min(4, Math.max(0.1, wanted));
      const [left, top] = [view.scrollLeft + x, view.scrollTop + y].map((place) => (place / from) * scale);
      drawn.setAttribute("width", width * scale);
      drawn.setAttribute("height", height * scale);
      view.scrollTo(left - x, top - y);
    };
    const buttons = element("div", "", "line");
    const offer = (name, act) => {
      const button = element("button", name);
      button.type = "button";
      button.addEventListener("click", act);
      buttons.append(button);
    };
    offer("Larger", () => show(scale * 1.25));
    offer("Smaller", () => show(scale / 1.25));
    offer("Whole picture", () => show(Math.min(view.clientWidth / width, view.clientHeight / height)));
    view.after(buttons);
    view.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const box = view.getBoundingClientRect();
      show(scale * Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    let held = null;
    view.addEventListener("pointerdown", (event) => {
      // Fingers scroll without a script.
      if (event.pointerType === "mouse" && event.button === 0) held = { x: event.clientX, y: event.clientY, isMoved: false };
    });
    view.addEventListener("pointermove", (event) => {
      if (!held || event.buttons !== 1) return;
      const [x, y] = [event.clientX - held.x, event.clientY - held.y];
      if (!held.isMoved && Math.hypot(x, y) < 4) return;
      if (!held.isMoved) view.setPointerCapture(event.pointerId);
      view.scrollBy(-x, -y);
      held = { x: event.clientX, y: event.clientY, isMoved: true };
    });
    view.addEventListener("dragstart", (event) => event.preventDefault());
    // A link below the place where a drag ends is not followed.
    view.addEventListener("click", (event) => {
      if (held?.isMoved) event.preventDefault();
      held = null;
    }, { capture: true });
    if (picture.dataset.picture === "middle") {
      view.scrollTo((view.scrollWidth - view.clientWidth) / 2, (view.scrollHeight - view.clientHeight) / 2);
    }
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
        offerMoving(place);
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
offerMoving(document);
